// The Store on SQLite: every write is its caller's part of one IMMEDIATE transaction without an await in it (group-commit.ts).
import { realpathSync } from 'node:fs'
import { resolve as resolvePath } from 'node:path'
import { hasCode, OnceishError } from '../../core/errors.ts'
import { commitsOf } from '../commits-of.ts'
import type { Commit, NewRequest, Store, StoreProbe } from '../store.ts'
import type { TurnInput, TurnResult } from '../turn.ts'
import { copyStore, ownFiles } from './backup.ts'
import { createCallGate } from './call-gate.ts'
import { hasRecord, RECORD_SUFFIX } from './call-record.ts'
import { toInvestigation } from './checks.ts'
import { type Connection, connect, toStoreError } from './connection.ts'
import { earliest, nextCheckAt, nextDueAt } from './due.ts'
import { enqueueAll, isRefusalRollback } from './enqueue.ts'
import { enqueueIn } from './enqueue-in.ts'
import { noteTargetEvent } from './events.ts'
import { doubtSlice } from './forgotten.ts'
import { createGroupCommit, GROUP_ROWS, type Part } from './group-commit.ts'
import { listRequests } from './lists.ts'
import { boundLog, LOG_BOUND_BYTES } from './log-bound.ts'
import { migrate, readSchemaVersion, refuseNewer, refuseOlder, refuseOther, SCHEMA_VERSION } from './migrate.ts'
import { cancel, reprioritize, resolve, retry, sayToEach } from './operator.ts'
import { adoptOrphan, dismissOrphan, listOrphans } from './orphans.ts'
import { pauseTarget, resumeTarget } from './pauses.ts'
import { dropKept, previewSlice, purgeSlice, readSlice } from './purge.ts'
import { type EventRow, type QueuedRow, readFacts, requestDetail, requestViews, toEvent } from './queries.ts'
import { isRankedSo, setRankings } from './rankings.ts'
import type { TaskStateRow } from './rows.ts'
import { refuseSetAside } from './set-aside.ts'
import type { Guard } from './settle.ts'
import { prepareStatements } from './statements.ts'
import { storeStatus } from './store-status.ts'
import { runTurn } from './turn.ts'
import { ownerOf } from './turn-context.ts'

export interface SqliteStoreOptions {
  readonly path: string
  /** False: a missing file is STORE_NOT_FOUND. */
  readonly create: boolean
  readonly now: number
  readonly probe?: StoreProbe | undefined
  /** How large the -wal file may grow before readers are asked to let go of it. */
  readonly logBoundBytes?: number
  /** How long a write waits for other processes before STORE_BUSY. */
  readonly busyForMs?: number
}

const BUSY_FOR_MS = 30_000
const CHARS_A_ROW = 4096

/** @throws OnceishError STORE_* when the file cannot be opened, is no database of ours, or has a newer schema. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const path = resolvePath(options.path)
  const db = await connect(path, options)
  const { probe, busyForMs = BUSY_FOR_MS } = options

  try {
    const version = readSchemaVersion(db)
    refuseSetAside(db, version, path)
    refuseNewer(version, path)
    if (version === 0 && !options.create) {
      throw new OnceishError(
        'STORE_NOT_FOUND',
        `${path} holds no onceish tables: run "onceish migrate" or "onceish enqueue" to make them`,
      )
    }
    if (version < SCHEMA_VERSION && !options.create) refuseOlder(version, path)
    if (version < SCHEMA_VERSION) {
      const alone = createGroupCommit({ db, path, busyForMs, begin: () => refuseLeftover(db, path) })
      await alone.write({
        rows: GROUP_ROWS,
        work: () => {
          migrate(db, path, options.now)
          probe?.('before-commit', 'migrate')
        },
        committed: () => probe?.('after-commit', 'migrate'),
      })
    }
  } catch (error) {
    db.close()
    throw toStoreError(error, path)
  }

  const sql = prepareStatements(db)
  /** SQLite keeps its side files beside the file itself, wherever a link to it stands. */
  const realPath = realpathSync(path)
  const listeners = new Set<() => void>()
  const commitListeners = new Set<() => void>()
  let isClosing = false

  const checkOpen = () => {
    if (isClosing) throw new OnceishError('STORE_CLOSED', `the store ${path} is closed`)
  }
  const gate = createCallGate(sql, realPath)
  const commits = createGroupCommit({
    db,
    path,
    busyForMs,
    begin: () => {
      const version = sql.schemaVersion.get() as number
      refuseSetAside(db, version, path)
      refuseOther(version, path)
    },
    onCommit: () => {
      for (const listener of commitListeners) listener()
    },
    onWork: () => {
      for (const wake of listeners) wake()
    },
  })
  const read = async <T>(work: () => T): Promise<T> => {
    checkOpen()
    try {
      return work()
    } catch (error) {
      throw toStoreError(error, path)
    }
  }
  const write = async <T>(commit: Commit, part: Part<T>): Promise<T> => {
    checkOpen()
    return commits.write({
      ...part,
      work: () => {
        const made = part.work()
        probe?.('before-commit', commit)
        return made
      },
      committed: () => probe?.('after-commit', commit),
    })
  }
  /** A change that makes no work for anybody. */
  const tidy = <T>(commit: Commit, work: () => T, rows = 1): Promise<T> => write(commit, { work, rows })
  const change = <T>(commit: Commit, work: () => T, rows = 1): Promise<T> =>
    write(commit, { work, rows, makesWork: true })
  /** @returns whether another connection has committed since it was last asked. */
  const commitWatch = () => {
    let seenVersion = sql.dataVersion.get() as number
    return () => {
      const version = sql.dataVersion.get() as number
      const isNew = version !== seenVersion
      seenVersion = version
      return isNew
    }
  }
  const turn = async (input: TurnInput): Promise<TurnResult> => {
    checkOpen()
    let hasCommitted = false
    const run = (guard: Guard | null) =>
      commits.write({
        rows: 1,
        isUrgent: true,
        work: () => {
          const own = readFacts(sql)
          const made = runTurn(sql, input, guard, own)
          if (made.calls.length > 0) gate.admit(own)
          for (const commit of commitsOf(input, made)) probe?.('before-commit', commit)
          return made
        },
        committed: (made) => {
          hasCommitted = true
          for (const commit of commitsOf(input, made)) probe?.('after-commit', commit)
          if (made.calls.length > 0) gate.record()
        },
      })
    return run(null).catch((error: unknown) => {
      if (hasCommitted || input.results.length === 0) throw error
      if (hasCode(error, ...MACHINE_TROUBLE, 'INVARIANT_BROKEN')) throw error
      // One of the answers cannot be written as it is: again, each under a savepoint of its own.
      return run(savepointsOf(db))
    })
  }

  return {
    clock: null,
    facts: () =>
      read(() => {
        const { hasCalled: _1, nextExpiryAt: _2, isRanked: _3, ...facts } = readFacts(sql)
        return { engine: 'sqlite', location: path, folderPath: path, ...facts }
      }),
    origin: () => read(() => gate.origin()),
    doubtForgotten: (afterId, order) =>
      order.dryRun
        ? read(() => doubtSlice(sql, afterId, order))
        : tidy('restore', () => doubtSlice(sql, afterId, order), GROUP_ROWS),
    declareOwn: async (kind, word, detail) => {
      await change('restore', () => {
        gate.declareOwn(kind, word.now)
        noteTargetEvent(sql, null, { kind, reason: null, detail }, word)
      })
      gate.restart()
    },
    enqueue: async (requests, now, { stopAtRefusal = false } = {}) => {
      try {
        return await write('enqueue', {
          work: () => enqueueAll(sql, requests, now, stopAtRefusal),
          rows: rowsOf(requests),
          makesWork: true,
          ...(stopAtRefusal ? { isUndoing: isRefusalRollback } : {}),
        })
      } catch (error) {
        if (isRefusalRollback(error)) return error.results
        throw error
      }
    },
    enqueueIn: (connection, request, now) => {
      checkOpen()
      return enqueueIn(connection, path, request, now)
    },
    turn,
    // A commit on a file is answered, or this process is dead.
    turnInDoubt: async () => null,
    watchChanges: (targets) => {
      checkOpen()
      const served = JSON.stringify(targets)
      const isCommitted = commitWatch()
      return (now) =>
        read(() => {
          if (!isCommitted()) return null
          const due = earliest(nextDueAt(sql), nextCheckAt(sql, served), sql.nextPauseEnd.get(now))
          return { work: sql.hasWork.get({ targets: served, now }) === 1, nextDueAt: due }
        })
    },
    watchCommits: () => {
      checkOpen()
      const isCommitted = commitWatch()
      return () => read(isCommitted)
    },
    onCommit: (listener) => {
      commitListeners.add(listener)
      return () => commitListeners.delete(listener)
    },
    onWork: (wake) => {
      listeners.add(wake)
      return () => listeners.delete(wake)
    },
    saveDescriptions: (targets, now) =>
      change(
        'describe',
        () => {
          for (const { name, version, description, bucket } of targets) {
            sql.saveDescription.run(name, version, description, now)
            if (bucket === undefined) sql.leaveBucket.run(name)
            else sql.joinBucket.run(name, bucket)
          }
        },
        targets.length,
      ),
    // Most workers say what is so already: that needs no commit.
    rank: async (words, now, actor) =>
      (await read(() => isRankedSo(sql, words)))
        ? []
        : change('rank', () => setRankings(sql, words, { now, actor }), words.length),
    releaseChecks: (worker, now) =>
      change('release', () => {
        sql.releaseChecks.run(now, ownerOf(worker))
      }),
    get: (requestId) => read(() => requestDetail(sql, requestId)),
    list: (filter) => read(() => listRequests(db, sql, filter)),
    queued: ({ state = null, target = null, reason = null, group = null }, after, limit) =>
      read(() => sql.queuedAfter.all({ state, target, reason, group, after, limit }) as QueuedRow[]),
    viewsOf: (requestIds) => read(() => requestViews(sql, requestIds)),
    eventsAfter: (eventId, limit) => read(() => (sql.eventsAfter.all(eventId, limit) as EventRow[]).map(toEvent)),
    lastEventId: () => read(() => sql.lastEventId.get() as number),
    orphans: (limit) => read(() => db.transaction(() => listOrphans(sql, limit))()),
    status: () => read(() => db.transaction(() => storeStatus(sql))()),
    drainStatus: (targets, horizonAt, claimedBefore) =>
      read(() => {
        const row = sql.drainStatus.get({ targets: JSON.stringify(targets), horizon: horizonAt, claimedBefore }) as {
          queued: number
          in_doubt: number
        }
        return { queued: row.queued === 1, inDoubt: row.in_doubt === 1 }
      }),
    inDoubt: (afterId, limit) =>
      read(() => (sql.inDoubt.all(afterId, limit) as TaskStateRow[]).map((row) => toInvestigation(sql, row))),
    retry: (requestId, word, options) => change('retry', () => retry(sql, requestId, word, options)),
    reprioritize: (requestId, priority, word) =>
      change('reprioritize', () => reprioritize(sql, requestId, priority, word)),
    resolve: (requestId, resolution, word, options) =>
      change('resolve', () => resolve(sql, requestId, resolution, word, options)),
    sayToEach: (seen, saying, word, { dryRun, policyOf }) => {
      const say = () => sayToEach(sql, seen, saying, word, { dryRun, policyOf })
      return dryRun ? read(() => db.transaction(say)()) : change(saying.word, say, seen.length)
    },
    adoptOrphan: (orphanId, word, policyOf) => change('orphan', () => adoptOrphan(sql, orphanId, word, policyOf)),
    dismissOrphan: (orphanId, word) => tidy('orphan', () => dismissOrphan(sql, orphanId, word)),
    cancel: (requestId, word) => change('cancel', () => cancel(sql, requestId, word)),
    pause: (target, reason, actor, now) => change('pause', () => void pauseTarget(sql, target, reason, { now, actor })),
    resume: (target, actor, now) => change('resume', () => resumeTarget(sql, target, { now, actor })),
    purgeAfter: async (afterId, scope, word) => {
      const slice = await read(() => readSlice(sql, afterId, scope))
      const isIdle = word.dryRun || !slice.rows.some((row) => row.is_purgeable === 1)
      if (isIdle) return previewSlice(slice, afterId)
      // A dead request may have kept others of its ordering key waiting.
      const commit = slice.rows.some(({ state }) => state === 'dead') ? change : tidy
      return commit('purge', () => purgeSlice(sql, slice, afterId, scope, word), GROUP_ROWS)
    },
    dropKeptPayloads: (target, before, { dryRun }) =>
      dryRun
        ? read(() => ({ dropped: sql.countKeptPastAge.get(target, before) as number, done: true }))
        : tidy('purge', () => dropKept(sql, target, before), GROUP_ROWS),
    boundLog: () => read(() => boundLog(db, realPath, options.logBoundBytes ?? LOG_BOUND_BYTES)),
    backup: async (to, backupOptions) => {
      checkOpen()
      return copyStore(path, to, backupOptions)
    },
    filesOf: ownFiles,
    close: async () => {
      isClosing = true
      await commits.drain()
      gate.close()
      db.close()
    },
  }
}

/** Where an error makes SQLite undo the whole transaction, nothing may be written after it: that would stand by itself. */
function savepointsOf(db: Connection): Guard {
  let undoneBy: unknown
  return (work) => {
    if (!db.inTransaction) throw undoneBy
    try {
      return db.transaction(work)()
    } catch (error) {
      undoneBy = error
      throw error
    }
  }
}

/** A long payload takes as long to write as many short ones. */
function rowsOf(requests: readonly NewRequest[]): number {
  return requests.reduce((rows, { payload }) => rows + 1 + Math.floor(payload.length / CHARS_A_ROW), 0)
}

/** A file that is made anew knows nothing of what a store called that stood here. Call under the write lock. */
function refuseLeftover(db: Connection, path: string): void {
  const realPath = realpathSync(path)
  if (readSchemaVersion(db) > 0 || !hasRecord(realPath)) return
  throw new OnceishError(
    'STORE_RESTORED',
    `there is no store at ${path} any more, and beside it is the record of what it called: put it back (a copy will do: then "onceish recover --restored"), or remove ${realPath}${RECORD_SUFFIX} where those calls do not matter`,
  )
}

/** Troubles of the machine or the file, not of one answer. */
const MACHINE_TROUBLE = [
  'STORE_BUSY',
  'STORE_FULL',
  'STORE_IO_FAILED',
  'STORE_SYNC_FAILED',
  'STORE_UNWRITABLE',
  'STORE_CORRUPT',
  'STORE_SCHEMA_NEWER',
  'STORE_SCHEMA_OLDER',
  'STORE_COPIED',
] as const
