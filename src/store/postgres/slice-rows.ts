// What the functions of the schema return, as the slice takes it.
import type { Transaction } from './connection.ts'
import type { Loaded, Row } from './slice.ts'

type RowOf = Record<string, string | number | null>

/** Rows of one table, or what else the transaction needs to know; null: none. */
interface Told {
  readonly t: string
  /** As text where a caller's client may parse JSON in a way of its own. */
  readonly r: string | RowOf | readonly RowOf[] | null
}

export interface StoreRow {
  readonly schema_version: number
  readonly namespace: string
  readonly incarnation: string
  readonly high_water_at: number
  readonly has_called: number
  readonly clock_ahead_ms: number
  readonly system_identifier: string
  readonly timeline: string
  /** The server's clock, epoch ms. */
  readonly now: number
}

export type Rows = Map<string, Row[]>

/** @param calls of functions of the schema that return rows, each with its parameters. */
export async function loadRows(tx: Transaction, text: string, values: readonly unknown[]): Promise<Rows> {
  const rows: Rows = new Map()
  const add = (table: string, row: Row) => {
    const of = rows.get(table)
    if (of === undefined) rows.set(table, [row])
    else of.push(row)
  }
  for (const { t, r } of await tx.query<Told>(text, values)) {
    const told = typeof r === 'string' ? (JSON.parse(r) as RowOf) : r
    for (const row of told === null ? [] : Array.isArray(told) ? (told as RowOf[]) : [told as RowOf]) {
      if (t === 'heads') addHead(row, add)
      else add(t, t === 'logical_hashes' ? withBytes(row) : row)
    }
  }
  return rows
}

/** A request, and where it stands in the queue. */
function addHead({ rank, queue_mark: mark, ...request }: RowOf, add: (table: string, row: Row) => void): void {
  const { target, group_key: group, due_at, request_id } = request
  add('requests', request as Row)
  add('ready', { '^': mark, target, group_key: group ?? '', rank, due_at, request_id } as Row)
}

/**
 * Loads requests, what stands beside them, and what holds targets back.
 * @param s the schema, quoted; @param ids in SQL; @param how.neighbours who shares their ordering keys too, as `rows_about` has it
 */
export function rowsAboutSql(s: string, ids: string, how: { isLocked: boolean; neighbours: boolean }): string {
  return `SELECT * FROM ${s}.rows_of_targets(${how.isLocked})
    UNION ALL SELECT * FROM ${s}.rows_about(${ids}, ${how.isLocked}, ${how.neighbours})`
}

export function only<R>(rows: Loaded, table: string): R | undefined {
  return rows.get(table)?.[0] as R | undefined
}

/** JSON has bytes as text. */
function withBytes({ hash, payload_hash, ...row }: RowOf): Row {
  return { ...row, hash: bytesOf(hash ?? null), payload_hash: bytesOf(payload_hash ?? null) }
}

function bytesOf(value: string | number | null): Buffer | null {
  return typeof value === 'string' ? Buffer.from(value.slice(2), 'hex') : null
}
