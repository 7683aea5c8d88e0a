// The statements that are prepared once a connection, named for what they do; their texts stand in sql/. Time is always a parameter.
// LIMIT takes its parameter behind a plus: SQLite looks at the value of a bare one to plan, and so plans anew at each bind.
import type Database from 'better-sqlite3'
import { fingerprintOf } from '../../core/prepared-call.ts'
import { thaw } from './rows.ts'
import { LIMIT_SQL } from './sql/limits.ts'
import { ORDERING_SQL } from './sql/ordering.ts'
import { QUEUE_SQL } from './sql/queue.ts'
import { TURN_SQL } from './sql/turn.ts'
import { UPKEEP_SQL } from './sql/upkeep.ts'
import { VIEW_SQL } from './sql/views.ts'

export const SQL = { ...QUEUE_SQL, ...LIMIT_SQL, ...TURN_SQL, ...UPKEEP_SQL, ...VIEW_SQL, ...ORDERING_SQL } as const

export type Statements = { readonly [Name in keyof typeof SQL]: Database.Statement }

/** Functions of ours that statements call. */
export function defineFunctions(db: Database.Database): void {
  db.function('fingerprint_of', { deterministic: true }, (frozen, payload) =>
    fingerprintOf(thaw(frozen as string, payload as string)),
  )
}

export function prepareStatements(db: Database.Database): Statements {
  defineFunctions(db)
  return prepareOnly(db, Object.keys(SQL) as (keyof Statements)[])
}

/** What an enqueue needs, for connections that are not ours. */
export const ENQUEUE_STATEMENTS = [
  'schemaVersion',
  'insertRequest',
  'insertHash',
  'claimFreeHash',
  'findHash',
  'deleteRequest',
  'setRequestGeneration',
  'insertReady',
  'enterRotation',
  'insertWaiting',
  'becomeHead',
  'follow',
  'insertExpiry',
  'overview',
] as const
export type EnqueueStatements = Pick<Statements, (typeof ENQUEUE_STATEMENTS)[number]>

export function prepareOnly<Name extends keyof Statements>(
  db: Database.Database,
  names: readonly Name[],
): Pick<Statements, Name> {
  const prepared = names.map((name) => {
    const { text, gives } = SQL[name]
    // A caller's connection may have been set to BigInts.
    const statement = db.prepare(text).safeIntegers(false)
    if (gives === 'cells') return [name, statement.raw()]
    return [name, gives === 'value' ? statement.pluck() : statement]
  })
  return Object.fromEntries(prepared) as Pick<Statements, Name>
}
