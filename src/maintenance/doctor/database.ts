// Checks of the database file: whether it is there and whole, synced, of a bearable size, and in step with the clock.
import { formatDuration } from '../../config/duration.ts'
import { type Check, counted, type DatabaseView, type DoctorFacts, fail, formatBytes, ok, warn } from './check.ts'

export function checkDatabase({ inspection: { database, path }, next }: DoctorFacts): Check {
  const name = 'database'
  switch (database.kind) {
    case 'read':
      return ok(name, path)
    case 'missing':
      return warn(
        name,
        `there is none yet at ${path}`,
        `${next('migrate')}, or the first "enqueue", makes it; else mend "store"`,
      )
    case 'empty':
      return warn(name, `${path} holds no tables of onceish`, `${next('migrate')} makes them; else mend "store"`)
    case 'unreadable':
      return fail(
        name,
        `${database.code}: ${database.message}`,
        ADVICE[database.code] ?? 'look at the file before anything else touches it',
      )
  }
}

const ADVICE: Readonly<Record<string, string>> = {
  STORE_BUSY: 'end the process that holds it (fuser FILE names it), then look again',
  STORE_COPIED: 'point "store" at where it went, or take it back (README, "Moving up")',
  STORE_CORRUPT: 'stop all workers, keep the file, and restore a backup (README, "Maintenance")',
  STORE_NOT_A_DATABASE: 'mend "store" in the config; the file was left as it is',
  STORE_UNWRITABLE: 'run as the user who owns it, or change the owner',
}

export function checkJournal({ database }: DatabaseView): Check {
  const found = `${database.journalMode}, synchronous=${database.isSynced ? 'FULL' : 'less than FULL'}`
  if (!database.isSynced) return fail('journal', found, 'use the SQLite that comes with onceish')
  if (database.journalMode === 'wal') return ok('journal', found)
  return warn('journal', found, 'the next open sets WAL; where it does not stay, move the store to a local disk')
}

/** Who has a worker running finds none of its own: it takes them over within seconds. */
export function checkSpills({ database, next }: DatabaseView): Check {
  const name = 'spilled_answers'
  const { spills } = database
  const former = spills.filter(({ formerRequests }) => formerRequests.length > 0)
  if (former.length > 0) {
    const requests = [...new Set(former.flatMap(({ formerRequests }) => formerRequests))]
    const shown = `${requests.slice(0, SHOWN_REQUESTS).join(', ')}${requests.length > SHOWN_REQUESTS ? ', ...' : ''}`
    return warn(
      name,
      `of the time before the store was put back, used for nothing: ${former.map(({ path }) => path).join(', ')} (requests ${shown})`,
      'read what the API said there (the task ids) before you resolve these requests, then remove the file',
    )
  }
  if (spills.length === 0) return ok(name, 'none')
  const answers = spills.reduce((sum, spill) => sum + spill.answers, 0)
  return warn(
    name,
    `${counted(answers, 'answer')} that the store has not taken: ${spills.map(({ path }) => path).join(', ')}`,
    `${next('work')} takes them over; a file that stays then has lines that cannot be read`,
  )
}

const SHOWN_REQUESTS = 20

const CLOCK_TOLERANCE_MS = 1000
const FUTURE_TOLERANCE_MS = 60_000

export function checkClock({ database, now }: DatabaseView): Check {
  const { highWaterAt, newestRowAt, clockAheadMs } = database
  const behindMs = highWaterAt - clockAheadMs - now
  const advice = 'set the clock (NTP); until it has caught up, replays wait, and nothing is called blindly'
  if (behindMs > CLOCK_TOLERANCE_MS) {
    return warn('clock', `the clock is ${formatDuration(behindMs)} behind the last claim in the store`, advice)
  }
  if (newestRowAt !== null && newestRowAt - now > FUTURE_TOLERANCE_MS) {
    return warn('clock', `the newest rows are of ${formatDuration(newestRowAt - now)} in the future`, advice)
  }
  return ok('clock', new Date(now).toISOString())
}

export function checkOrigin({ database: { origin }, next }: DatabaseView): Check {
  if (origin === null || origin.kind === 'own') return ok('origin', 'it made its calls itself')
  if (origin.kind === 'moved') {
    return fail('origin', `it was at ${origin.from} when it last called`, `${next('recover --moved')}, or --restored`)
  }
  const since = new Date(origin.knownUntil).toISOString()
  const what =
    origin.why === 'failed_over' ? 'a standby was promoted, or it was put back from a backup' : 'put back from a copy'
  return fail('origin', `${what}: calls since ${since} may be forgotten`, next('recover --restored'))
}

export function checkLog({ database: { log } }: DatabaseView): Check {
  const size = formatBytes(log.bytes)
  const isLarge = log.bytes > log.boundBytes
  if (log.isHeld && isLarge) {
    return warn(
      'log',
      `the -wal file has ${size} and a reader holds it back`,
      'end the process that reads (a backup, a sqlite3 shell); a worker then shrinks it',
    )
  }
  if (isLarge) return warn('log', `the -wal file has ${size}`, 'a running worker shrinks it within seconds')
  return ok('log', log.isHeld ? `${size}; a reader holds it back at the moment` : size)
}

const MUCH_FREE_BYTES = 256 * 1_048_576

export function checkSize({ database: { bytes, freeBytes }, inspection: { path } }: DatabaseView): Check {
  const found = `${formatBytes(bytes)}, ${formatBytes(freeBytes)} of it free for new rows`
  if (freeBytes < MUCH_FREE_BYTES || freeBytes * 2 < bytes) return ok('size', found)
  return warn('size', found, `to give it back to the disk, stop all workers, then: sqlite3 ${path} VACUUM`)
}

export function checkIntegrity({ database: { integrity }, next }: DatabaseView): Check {
  if (integrity.kind === 'ok') return ok('integrity', 'whole')
  if (integrity.kind === 'skipped') {
    return ok(
      'integrity',
      `not looked at, since it is larger than ${formatBytes(integrity.boundBytes)}: ${next('doctor --full')} does`,
    )
  }
  return fail('integrity', integrity.found, ADVICE['STORE_CORRUPT'] ?? '')
}
