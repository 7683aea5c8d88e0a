// A digest of many rows in whatever order they come: two tables that have the same rows have the same one.
import { hash } from 'node:crypto'

export interface RowDigest {
  add(row: readonly (string | number | null)[]): void
  readonly rows: number
  /** 64 hex digits. */
  value(): string
}

const MODULUS = 1n << 256n

/** Sums the hashes of the rows, each as JSON writes its cells: unlike XOR, a row that is there twice does not vanish. */
export function createRowDigest(): RowDigest {
  let sum = 0n
  let rows = 0
  return {
    add: (row) => {
      sum = (sum + BigInt(`0x${hash('sha256', JSON.stringify(row))}`)) % MODULUS
      rows++
    },
    get rows() {
      return rows
    },
    value: () => sum.toString(16).padStart(64, '0'),
  }
}
