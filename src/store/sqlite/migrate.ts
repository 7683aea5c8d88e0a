// Brings a database to this version's schema in one immediate transaction; any number of processes may try at once.
import { randomBytes, randomUUID } from 'node:crypto'
import { OnceishError } from '../../core/errors.ts'
import type { Connection } from './connection.ts'
import { CORE_SCHEMA } from './migrations/0001-core.ts'
import { KEPT_PAYLOADS } from './migrations/0002-kept-payloads.ts'
import { CALLS_AND_CLOCK } from './migrations/0003-calls-and-clock.ts'
import { PLAIN_CHECKS } from './migrations/0004-plain-checks.ts'
import { SHARED_LIMITS } from './migrations/0005-shared-limits.ts'
import { BREAKERS } from './migrations/0006-breakers.ts'
import { SCHEDULING } from './migrations/0007-scheduling.ts'
import { ORDERING_KEYS } from './migrations/0008-ordering-keys.ts'
import { GROUPS } from './migrations/0009-groups.ts'
import { OVERVIEW_VIEW } from './sql/views.ts'

/** Index + 1 is the schema version that a migration leads to. */
const MIGRATIONS: readonly string[] = [
  CORE_SCHEMA,
  KEPT_PAYLOADS,
  CALLS_AND_CLOCK,
  PLAIN_CHECKS,
  SHARED_LIMITS,
  BREAKERS,
  SCHEDULING,
  ORDERING_KEYS,
  GROUPS,
]
export const SCHEMA_VERSION = MIGRATIONS.length

/** @returns 0 for a database that onceish has never used. */
export function readSchemaVersion(connection: Connection): number {
  const hasStore = connection.prepare(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store'`).get()
  if (hasStore === undefined) return 0
  const row = connection.prepare('SELECT schema_version FROM store WHERE id = 1').get() as
    | { schema_version: number }
    | undefined
  return row?.schema_version ?? 0
}

/** @throws OnceishError STORE_SCHEMA_NEWER when a later onceish wrote it. */
export function refuseNewer(version: number, path: string): void {
  if (version <= SCHEMA_VERSION) return
  throw new OnceishError(
    'STORE_SCHEMA_NEWER',
    `${path} has schema version ${version}, this onceish knows ${SCHEMA_VERSION}: install the newer onceish`,
    { details: { version, known: SCHEMA_VERSION } },
  )
}

/** Whoever only looks brings nothing up: workers of the older onceish would stop. @throws OnceishError STORE_SCHEMA_OLDER */
export function refuseOlder(version: number, path: string): never {
  throw new OnceishError(
    'STORE_SCHEMA_OLDER',
    `${path} has schema version ${version}, this onceish works on ${SCHEMA_VERSION}: stop the workers of the older one, back the file up with it, then run "onceish migrate"`,
    { details: { version, known: SCHEMA_VERSION } },
  )
}

/** @throws OnceishError STORE_SCHEMA_NEWER, STORE_SCHEMA_OLDER: another onceish has changed it while this one ran. */
export function refuseOther(version: number, path: string): void {
  refuseNewer(version, path)
  if (version === SCHEMA_VERSION) return
  throw new OnceishError(
    'STORE_SCHEMA_OLDER',
    `${path} has schema version ${version} and this onceish works on ${SCHEMA_VERSION}: stop everything and look at the file`,
  )
}

/** Call inside an IMMEDIATE transaction: the version is read under its lock. @returns the version that was found. */
export function migrate(connection: Connection, path: string, now: number): number {
  const found = readSchemaVersion(connection)
  refuseNewer(found, path)
  if (found === SCHEMA_VERSION) return found
  // A migration knows nothing of the view, which shows the tables as the last of them leaves them.
  connection.exec(OVERVIEW_VIEW.drop)
  for (let version = found; version < SCHEMA_VERSION; version++) connection.exec(MIGRATIONS[version] ?? '')
  connection.exec(OVERVIEW_VIEW.create)
  if (found === 0) {
    connection
      .prepare('INSERT INTO store (id, schema_version, namespace, incarnation, high_water_at) VALUES (1, ?, ?, ?, ?)')
      .run(SCHEMA_VERSION, randomBytes(16).toString('hex'), randomUUID(), now)
  } else {
    connection.prepare('UPDATE store SET schema_version = ? WHERE id = 1').run(SCHEMA_VERSION)
  }
  return found
}
