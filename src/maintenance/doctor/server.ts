// Checks of the server that a store stands on: whether it is reached, keeps what it commits, and takes writes.
import { formatDuration } from '../../config/duration.ts'
import { type Check, type DatabaseView, type DoctorFacts, fail, formatBytes, ok, warn } from './check.ts'

export function checkServer({ inspection: { database, path, engine, server } }: DoctorFacts): Check {
  const name = 'server'
  if (server == null) {
    const said = database.kind === 'unreadable' ? `${database.code}: ${database.message}` : `${path} says nothing`
    return fail(name, said, 'start it, open the way to it, or mend "store" in the config')
  }
  if (!server.isSynced) return fail(name, 'fsync is off: a power cut forgets calls that were made', 'set fsync to on')
  if (!server.writesWholePages)
    return warn(name, 'full_page_writes is off: a power cut may damage pages', 'set full_page_writes to on')
  if (server.isStandby)
    return fail(name, `${path} is a standby: nothing can be claimed`, 'point "store" at the primary')
  if (server.isReadOnly)
    return fail(name, `${path} is read-only: nothing can be claimed`, 'set default_transaction_read_only to off')
  return ok(name, engine)
}

export function checkTables({ inspection: { database, path, server }, next }: DoctorFacts): Check {
  const name = 'database'
  if (database.kind === 'read') return ok(name, `${path}, ${formatBytes(database.bytes)}`)
  if (database.kind !== 'unreadable')
    return warn(name, `${path} holds no tables of onceish`, `${next('migrate')} makes them; else mend "store"`)
  const advice = server === null ? 'see "server"' : 'mend what it says; nothing was changed'
  return fail(name, `${database.code}: ${database.message}`, advice)
}

const NOTABLE_MS = 60_000

/** Only what people read here goes by this machine's. */
export function checkServerClock({ inspection: { server }, now }: DatabaseView): Check {
  const name = 'clock'
  const apartMs = Math.abs((server?.now ?? now) - now)
  const found = `the server's counts: ${new Date(server?.now ?? now).toISOString()}`
  if (apartMs < NOTABLE_MS) return ok(name, found)
  return warn(
    name,
    `${found}; this machine's is ${formatDuration(apartMs)} apart`,
    'set it (NTP): times are shown by it',
  )
}
