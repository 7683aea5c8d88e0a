// The Store on SQLite: every write is one IMMEDIATE transaction without an await in it, retried whole when busy.
import { resolve as resolvePath } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { hasCode, OnceishError } from '../../core/errors.ts'
import type { Store, TurnInput, TurnResult } from '../store.ts'
import { earliest, nextCheckAt, nextDueAt, toInvestigation } from './checks.ts'
import { connect, isBusy, toStoreError } from './connection.ts'
import { ConflictRollback, enqueueAll } from './enqueue.ts'
import { migrate, readSchemaVersion, refuseNewer, SCHEMA_VERSION } from './migrate.ts'
import { cancel, resolve, retry } from './operator.ts'
import { listRequests, requestDetail, storeStatus, toOrphan } from './queries.ts'
import type { TaskStateRow } from './rows.ts'
import { prepareStatements } from './statements.ts'
import { pauseTarget } from './transitions.ts'
import { runTurn } from './turn.ts'
import { ownerOf } from './turn-context.ts'

export interface SqliteStoreOptions {
  readonly path: string
  /** False: a missing file is STORE_NOT_FOUND. */
  readonly create: boolean
  readonly now: number
}

/** How long a write waits for other processes before STORE_BUSY. */
const BUSY_FOR_MS = 30_000

/** @throws OnceishError STORE_* when the file cannot be opened, is no database of ours, or has a newer schema. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const path = resolvePath(options.path)
  const db = await connect(path, options)

  async function write<T>(work: () => T): Promise<T> {
    const transaction = db.transaction(work)
    const started = performance.now()
    for (let tries = 0; ; tries++) {
      try {
        return transaction.immediate()
      } catch (error) {
        if (!isBusy(error) || performance.now() - started > BUSY_FOR_MS) throw toStoreError(error, path)
        await delay(Math.min(50, 2 ** tries) * (0.5 + Math.random()))
      }
    }
  }

  try {
    const version = readSchemaVersion(db)
    refuseNewer(version, path)
    if (version === 0 && !options.create) {
      throw new OnceishError(
        'STORE_NOT_FOUND',
        `${path} holds no onceish tables: run "onceish migrate" or "onceish enqueue" to make them`,
      )
    }
    if (version < SCHEMA_VERSION) await write(() => migrate(db, path, options.now))
  } catch (error) {
    db.close()
    throw toStoreError(error, path)
  }

  const sql = prepareStatements(db)
  const listeners = new Set<() => void>()

  function checkSchema(): void {
    const version = sql.schemaVersion.get() as number
    if (version === SCHEMA_VERSION) return
    refuseNewer(version, path)
    throw new OnceishError(
      'STORE_SCHEMA_OLDER',
      `${path} went back to schema version ${version}: stop everything and look at the file`,
    )
  }
  const read = async <T>(work: () => T): Promise<T> => {
    if (!db.open) throw new OnceishError('STORE_CLOSED', `the store ${path} is closed`)
    try {
      return work()
    } catch (error) {
      throw toStoreError(error, path)
    }
  }
  const change = async <T>(work: () => T): Promise<T> => {
    if (!db.open) throw new OnceishError('STORE_CLOSED', `the store ${path} is closed`)
    const result = await write(() => {
      checkSchema()
      return work()
    })
    for (const wake of listeners) wake()
    return result
  }
  const turn = async (input: TurnInput): Promise<TurnResult> => {
    if (!db.open) throw new OnceishError('STORE_CLOSED', `the store ${path} is closed`)
    const run = (guard: Parameters<typeof runTurn>[2]) =>
      write(() => {
        checkSchema()
        return runTurn(sql, input, guard)
      })
    try {
      return await run(null)
    } catch (error) {
      if (input.results.length === 0 || hasCode(error, ...MACHINE_TROUBLE, 'INVARIANT_BROKEN')) throw error
      // One of the answers cannot be written as it is: again, each under a savepoint of its own.
      return run((work) => db.transaction(work)())
    }
  }

  return {
    facts: () =>
      read(() => {
        const row = sql.facts.get() as {
          schema_version: number
          namespace: string
          incarnation: string
          high_water_at: number
        }
        return {
          engine: 'sqlite',
          location: path,
          folderPath: path,
          schemaVersion: row.schema_version,
          namespace: row.namespace,
          incarnation: row.incarnation,
          highWaterAt: row.high_water_at,
        }
      }),
    enqueue: async (requests, now, { stopAtConflict = false } = {}) => {
      try {
        return await change(() => enqueueAll(sql, requests, now, stopAtConflict))
      } catch (error) {
        if (error instanceof ConflictRollback) return error.results
        throw error
      }
    },
    turn,
    watchChanges: (targets) => {
      const served = JSON.stringify(targets)
      let seenVersion = sql.dataVersion.get() as number
      return (now) =>
        read(() => {
          const version = sql.dataVersion.get() as number
          if (version === seenVersion) return null
          seenVersion = version
          const due = earliest(nextDueAt(sql), nextCheckAt(sql, served))
          return { work: sql.hasWork.get({ targets: served, now }) === 1, nextDueAt: due }
        })
    },
    onWork: (wake) => {
      listeners.add(wake)
      return () => listeners.delete(wake)
    },
    saveDescriptions: (targets, now) =>
      change(() => {
        for (const { name, version, description } of targets) sql.saveDescription.run(name, version, description, now)
      }),
    releaseChecks: (worker, now) =>
      change(() => {
        sql.releaseChecks.run(now, ownerOf(worker))
      }),
    get: (requestId) => read(() => requestDetail(sql, requestId)),
    list: (filter) => read(() => listRequests(db, filter)),
    orphans: (limit) => read(() => (sql.orphans.all(limit) as Parameters<typeof toOrphan>[0][]).map(toOrphan)),
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
    retry: (requestId, word, policyOf) => change(() => retry(sql, requestId, word, policyOf)),
    resolve: (requestId, resolution, word, options) => change(() => resolve(sql, requestId, resolution, word, options)),
    cancel: (requestId, word) => change(() => cancel(sql, requestId, word)),
    pause: (target, reason, actor, now) => change(() => pauseTarget(sql, target, reason, { now, actor })),
    resume: (target, actor, now) =>
      change(() => {
        const resumed = sql.resumeTarget.run(target).changes > 0
        if (resumed) sql.wakePaused.run(now, target)
        if (resumed) sql.insertEvent.run(null, target, now, 'target_resumed', null, null, null, actor, null, null)
        return resumed
      }),
    close: async () => {
      if (db.open) db.close()
    },
  }
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
] as const
