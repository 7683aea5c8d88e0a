// Looks at a store on PostgreSQL from outside: nothing is made or changed, and what cannot be read is said instead of thrown.
import { hasCode, isOnceishError } from '../../core/errors.ts'
import type { DatabaseFacts, DatabaseInspection, InspectOptions, ServerFacts, StoreInspection } from '../inspection.ts'
import { spillFacts } from '../spill.ts'
import type { Store } from '../store.ts'
import { type Database, openDatabase } from './connection.ts'
import { openPostgresStore } from './postgres-store.ts'
import { POSTGRES_SCHEMA_VERSION } from './schema.ts'
import { withoutCredentials } from './server-errors.ts'
import { readUrl } from './url.ts'

const DOUBT_ROWS = 1000

export async function inspectPostgres(location: string, options: InspectOptions): Promise<StoreInspection> {
  const { url, schema } = readUrl(location)
  const db = openDatabase(url)
  try {
    const server = await db.read((tx) => tx.query<ServerRow>(SERVER_SQL)).then(([row]) => (row ? factsOf(row) : null))
    const database = await inspectDatabase(db, location, schema, options)
    return { ...OUTSIDE, path: db.location, engine: `PostgreSQL ${server?.version ?? ''}`, server, database }
  } catch (error) {
    return {
      ...OUTSIDE,
      path: withoutCredentials(url),
      engine: 'PostgreSQL',
      server: null,
      database: unreadable(error),
    }
  } finally {
    await db.close()
  }
}

/** What a server keeps is its own. */
const OUTSIDE = { folder: null, files: [] } as const

interface ServerRow {
  readonly version: string
  readonly fsync: string
  readonly full_page_writes: string
  readonly is_standby: boolean
  readonly read_only: string
  readonly now: number
}

const SERVER_SQL = `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes, pg_is_in_recovery() AS is_standby,
  current_setting('default_transaction_read_only') AS read_only,
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now`

function factsOf(row: ServerRow): ServerFacts {
  return {
    version: row.version,
    isSynced: row.fsync === 'on',
    writesWholePages: row.full_page_writes === 'on',
    isStandby: row.is_standby,
    isReadOnly: row.is_standby || row.read_only === 'on',
    now: row.now,
  }
}

async function inspectDatabase(
  db: Database,
  url: string,
  schema: string,
  { now, stateFolder }: InspectOptions,
): Promise<DatabaseInspection> {
  let store: Store | null = null
  try {
    store = await openPostgresStore({ url, create: false, now, stateFolder })
    return { kind: 'read', ...(await databaseFacts(db, store, schema)) }
  } catch (error) {
    return hasCode(error, 'STORE_NOT_FOUND') ? { kind: 'empty' } : unreadable(error)
  } finally {
    await store?.close()
  }
}

async function databaseFacts(db: Database, store: Store, schema: string): Promise<DatabaseFacts> {
  const { schemaVersion, highWaterAt, clockAheadMs, incarnation, folderPath } = await store.facts()
  const [size] = await db.read((tx) =>
    tx.query<{ bytes: number }>(
      `SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint AS bytes FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`,
      [schema],
    ),
  )
  const changes = await db.read((tx) =>
    tx.query<{ target: string; at: number }>(
      `SELECT target, MAX(updated_at) AS at FROM "${schema}".task_state GROUP BY target`,
    ),
  )
  return {
    schemaVersion,
    knownSchemaVersion: POSTGRES_SCHEMA_VERSION,
    journalMode: 'wal',
    isSynced: true,
    highWaterAt,
    clockAheadMs,
    origin: await store.origin(),
    newestRowAt: null,
    bytes: size?.bytes ?? 0,
    freeBytes: 0,
    log: { bytes: 0, boundBytes: 0, isHeld: false },
    integrity: { kind: 'skipped', boundBytes: 0 },
    spills: folderPath === null ? [] : spillFacts({ storePath: folderPath, incarnation }),
    work: {
      status: await store.status(),
      doubt: await store.inDoubt(0, DOUBT_ROWS),
      lastChangeAt: Object.fromEntries(changes.map(({ target, at }) => [target, at])),
    },
  }
}

function unreadable(error: unknown): DatabaseInspection {
  return {
    kind: 'unreadable',
    code: isOnceishError(error) ? error.code : 'UNEXPECTED',
    message: error instanceof Error ? error.message : String(error),
  }
}
