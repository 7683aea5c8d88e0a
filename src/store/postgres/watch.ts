// Who has committed: told at once by NOTIFY where that makes work for others, and asked for now and then, since a notification can be
// lost with its connection.
import type pg from 'pg'
import { systemClock } from '../../core/clock.ts'
import { earliest } from '../sqlite/due.ts'
import type { Change } from '../store.ts'
import { type Database, type Transaction, withinMs } from './connection.ts'
import { unquoted } from './url.ts'

export interface Watch {
  /** As `Store.watchChanges` has it. */
  changes(targets: readonly string[]): (now: number) => Promise<Change | null>
  /** As `Store.watchCommits` has it. */
  commits(): () => Promise<boolean>
  onCommit(listener: () => void): () => void
  onWork(wake: () => void): () => void
  /** A commit of this process. */
  committed(makesWork: boolean): void
  close(): Promise<void>
}

/** The net: what was notified while nobody listened is found within so long. */
const POLL_MS = 1000
const LISTEN_AGAIN_MS = 2000
const CLOSE_WITHIN_MS = 1000
/** A worker asks between two turns: what takes longer is the server's trouble. */
const PATIENCE_MS = 15_000

/** @param schema quoted. */
export function channelOf(schema: string): string {
  return `onceish_${unquoted(schema)}`
}

/** Told to others with the commit. @param s the schema, quoted; @param what has made work for them. */
export async function notify(tx: Transaction, s: string, what: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [channelOf(s), what])
}

export function createWatch(db: Database, schema: string): Watch {
  const listeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let notified = 0
  let client: pg.Client | null = null
  let isClosed = false
  let retry: (() => void) | null = null
  let listening: Promise<void> | null = null

  async function listen(): Promise<void> {
    let made: pg.Client | null = null
    try {
      made = await db.connect()
      if (isClosed) {
        await made.end()
        return
      }
      client = made
      made.on('notification', () => {
        notified++
        for (const wake of listeners) wake()
      })
      await made.query(`LISTEN "${channelOf(schema)}"`)
      made.on('end', again)
      // What came before it was heard.
      notified++
    } catch {
      if (made !== null) void withinMs(CLOSE_WITHIN_MS, made.end())
      again()
    }
  }

  function again(): void {
    client = null
    if (isClosed || retry !== null) return
    retry = systemClock.after(LISTEN_AGAIN_MS, () => {
      retry = null
      listening = listen()
    })
  }

  return {
    changes: (targets) => {
      listening ??= listen()
      let seen = notified
      let askedAt = systemClock.monotonicNow()
      return async (now) => {
        if (notified === seen && systemClock.monotonicNow() - askedAt < POLL_MS) return null
        seen = notified
        askedAt = systemClock.monotonicNow()
        return db.read(
          async (tx) => {
            const [row] = await tx.query<
              Record<'work' | 'waiting' | 'expiry' | 'lease' | 'check' | 'pause', number | boolean | null>
            >(hasWorkSql(schema), [targets, now])
            if (row === undefined) return null
            return {
              work: row.work === true,
              nextDueAt: earliest(row.waiting, row.expiry, row.lease, row.check, row.pause),
            }
          },
          { patienceMs: PATIENCE_MS },
        )
      }
    },
    commits: () => {
      let seen: string | null = null
      return async () => {
        const [row] = await db.read((tx) =>
          // With those that are under way: one of them may have been the older.
          tx.query<{ at: string }>('SELECT pg_current_snapshot()::text AS at'),
        )
        // Before the first question there may have been one.
        const isNew = row?.at !== seen
        seen = row?.at ?? null
        return isNew
      }
    },
    onCommit: (listener) => {
      commitListeners.add(listener)
      return () => commitListeners.delete(listener)
    },
    onWork: (wake) => {
      listeners.add(wake)
      return () => listeners.delete(wake)
    },
    committed: (makesWork) => {
      for (const listener of commitListeners) listener()
      if (makesWork) for (const wake of listeners) wake()
    },
    close: async () => {
      isClosed = true
      retry?.()
      await listening?.catch(() => {})
      if (client !== null) await withinMs(CLOSE_WITHIN_MS, client.end())
    },
  }
}

/** Pauses that end by themselves, of targets in `open`. */
export function waitingBeyond(s: string, open: string, until: string): string {
  return `SELECT o.target FROM ${open} o WHERE EXISTS (SELECT 1 FROM ${s}.timed_pauses p WHERE p.until > ${until}
    AND ((p.scope = 'target' AND p.name = o.target)
      OR (p.scope = 'bucket' AND p.name = (SELECT m.bucket FROM ${s}.bucket_members m WHERE m.target = o.target))))`
}

function hasWorkSql(s: string): string {
  return `WITH served AS (SELECT x AS target FROM unnest($1::text[]) x
      WHERE x NOT IN (SELECT target FROM ${s}.targets WHERE paused_at IS NOT NULL)),
    open AS (SELECT target FROM served WHERE target NOT IN (${waitingBeyond(s, 'served', '$2::bigint')}))
  SELECT EXISTS (SELECT 1 FROM open o WHERE EXISTS (SELECT 1 FROM ${s}.ready q WHERE q.target = o.target OFFSET 0))
      OR EXISTS (SELECT 1 FROM ${s}.waiting WHERE due_at <= $2)
      OR EXISTS (SELECT 1 FROM ${s}.expiries WHERE expires_at <= $2)
      OR EXISTS (SELECT 1 FROM ${s}.task_state WHERE state = 'unknown' AND next_check_at <= $2 AND target = ANY($1))
      OR EXISTS (SELECT 1 FROM ${s}.task_state WHERE state = 'invoking' AND lease_until <= $2) AS work,
    (SELECT MIN(due_at) FROM ${s}.waiting) AS waiting,
    (SELECT MIN(expires_at) FROM ${s}.expiries) AS expiry,
    (SELECT MIN(lease_until) FROM ${s}.task_state WHERE state = 'invoking') AS lease,
    LEAST((SELECT MIN(next_check_at) FROM ${s}.task_state WHERE state = 'unknown' AND target = ANY($1)),
      (SELECT MIN(next_check_at) FROM ${s}.task_state WHERE state = 'submitted' AND next_check_at IS NOT NULL AND target = ANY($1))) AS check,
    (SELECT MIN(until) FROM ${s}.timed_pauses WHERE until > $2) AS pause`
}
