// Where schedules live, and how their numbers are read.
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** In memory where the machine has a folder for that: a schedule syncs a hundred times. */
export function stageFolder(): string {
  return mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'onceish-simulation-'))
}

/** @throws Error for what is no whole number from 0 to 2^32 - 1. */
export function whole(text: string): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value <= 0xffffffff) return value
  throw new Error(`"${text}" is no whole number from 0 to 4294967295`)
}
