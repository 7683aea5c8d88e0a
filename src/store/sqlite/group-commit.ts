// Writers of one process share commits, since a sync costs as much as dozens of rows. What is asked for waits for the end of this
// round of the event loop (no timer: who comes alone waits for nobody), or for a turn, which commits at once and takes it along.
// A group runs in the order of arrival in one IMMEDIATE transaction; after its sync each caller hears its own result. One that
// fails must never take another with it: the group is rolled back, and each of it is tried again in a transaction of its own.
import { type Connection, isBusy, isSyncFailure, toStoreError } from './connection.ts'

/** One caller's part of a transaction. */
export interface Part<T> {
  /** Runs inside the transaction, anew where that came to no commit. */
  readonly work: () => T
  /** Runs right after the commit, before anybody hears of it; what it throws is its caller's alone. */
  readonly committed?: (made: T) => void
  /** About how much it writes: what writes `GROUP_ROWS` or more commits alone. */
  readonly rows: number
  /** Commits at once. */
  readonly isUrgent?: boolean
  /** A throw by which it undoes itself as a matter of course: that gets a savepoint among others, and needs no second try. */
  readonly isUndoing?: (error: unknown) => boolean
  /** Workers of this process may find something to do in it. */
  readonly makesWork?: boolean
}

export interface GroupCommit {
  /** Resolves after the sync. */
  write<T>(part: Part<T>): Promise<T>
  /** Commits what waits; resolves once all of it is answered. */
  drain(): Promise<void>
}

export interface GroupCommitOptions {
  readonly db: Connection
  readonly path: string
  /** Runs first in every transaction: what it throws refuses all parts. */
  readonly begin: () => void
  /** Told once a commit, after its parts' own `committed`. */
  readonly onCommit?: () => void
  /** Told as soon as work is asked for: a turn that comes by this round's end takes it along and claims it, in one commit. */
  readonly onWork?: () => void
  /** How long the lock of another process is waited for. */
  readonly busyForMs: number
}

/** Holds the lock and the event loop for a few milliseconds; of the sync, a row's share is down to a few microseconds. */
export const GROUP_ROWS = 128
/** Beyond it a caller who never lets the event loop go waits for the commit itself, so that what waits is bounded. */
const MAX_WAITING = 1024
const LONGEST_PAUSE_MS = 50

interface Waiting {
  readonly part: Part<unknown>
  readonly since: number
  readonly resolve: (made: unknown) => void
  readonly reject: (error: unknown) => void
  /** It was in a group that failed. */
  isAlone: boolean
}

/** What a part came to, if the transaction comes to its commit. */
type Made = { readonly value: unknown } | { readonly undoneBy: unknown }

export function createGroupCommit(options: GroupCommitOptions): GroupCommit {
  const { db, path, begin, onCommit, onWork, busyForMs } = options
  const waiting: Waiting[] = []
  let state: 'resting' | 'scheduled' | 'committing' | 'pausing' = 'resting'
  let pauses = 0
  let onDrained: (() => void)[] = []

  const savepoint = db.transaction((work: () => unknown) => work())
  const transact = db.transaction((group: readonly Waiting[]): Made[] => {
    begin()
    return group.map(({ part }) => (group.length > 1 ? runAmongOthers(part) : { value: part.work() }))
  }).immediate

  function runAmongOthers({ work, isUndoing }: Part<unknown>): Made {
    if (isUndoing === undefined) return { value: work() }
    try {
      return { value: savepoint(work) }
    } catch (error) {
      if (isUndoing(error)) return { undoneBy: error }
      throw error
    }
  }

  function commitGroup(): void {
    const group = waiting.slice(0, sizeOfGroup(waiting))
    let made: Made[]
    state = 'committing'
    try {
      made = transact(group)
    } catch (error) {
      state = 'resting'
      fail(group, error)
      return
    }
    state = 'resting'
    pauses = 0
    waiting.splice(0, group.length)
    group.forEach((one, i) => {
      answer(one, made[i] as Made)
    })
    // First: those who wait behind this group must not depend on who listens.
    goOn()
    onCommit?.()
  }

  function fail(group: readonly Waiting[], error: unknown): void {
    if (isBusy(error)) {
      // All that have waited too long, not only this group: each further try would hold the event loop once more.
      const inTime = waiting.findIndex(({ since }) => performance.now() - since <= busyForMs)
      refuse(inTime === -1 ? waiting.length : inTime, error)
      pause()
      return
    }
    pauses = 0
    // After a failed sync nobody knows what is on disk.
    if (group.length === 1 || isSyncFailure(error)) refuse(group.length, error)
    else for (const one of group) one.isAlone = true
    goOn()
  }

  /** The first so many. */
  function refuse(count: number, error: unknown): void {
    for (const one of waiting.splice(0, count)) one.reject(toStoreError(error, path))
  }

  /** What waits behind a group is committed once the event loop has gone round. */
  function goOn(): void {
    if (waiting.length === 0) {
      for (const resolve of onDrained) resolve()
      onDrained = []
    } else if (state === 'resting') {
      state = 'scheduled'
      setImmediate(resume, 'scheduled')
    }
  }

  function pause(): void {
    if (waiting.length === 0) {
      goOn()
      return
    }
    state = 'pausing'
    setTimeout(resume, Math.min(LONGEST_PAUSE_MS, 2 ** pauses++) * (0.5 + Math.random()), 'pausing')
  }

  /** Somebody may have committed meanwhile. */
  function resume(from: typeof state): void {
    if (state !== from) return
    state = 'resting'
    if (waiting.length > 0) commitGroup()
  }

  return {
    write: <T>(part: Part<T>) =>
      new Promise<T>((resolve, reject) => {
        const since = performance.now()
        waiting.push({ part, since, resolve, reject, isAlone: false } as Waiting)
        if (part.makesWork) onWork?.()
        if (state === 'committing' || state === 'pausing') return
        const isNow = part.isUrgent === true && sizeOfGroup(waiting) === waiting.length
        if (isNow || waiting.length >= MAX_WAITING) commitGroup()
        else goOn()
      }),
    drain: () =>
      new Promise((resolve) => {
        onDrained.push(resolve)
        if (waiting.length === 0) goOn()
      }),
  }
}

/** How many from the head go together. */
function sizeOfGroup(waiting: readonly Waiting[]): number {
  let rows = 0
  const end = waiting.findIndex(({ part, isAlone }, i) => {
    rows += part.rows
    return i > 0 && (isAlone || waiting[0]?.isAlone === true || rows > GROUP_ROWS)
  })
  return end === -1 ? waiting.length : end
}

function answer({ part, resolve, reject }: Waiting, made: Made): void {
  try {
    if ('undoneBy' in made) throw made.undoneBy
    part.committed?.(made.value)
    resolve(made.value)
  } catch (error) {
    reject(error)
  }
}
