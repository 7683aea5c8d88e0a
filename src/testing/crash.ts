// Ends a process at a named point, for real or as if: before and after a commit, and around the call itself.
import { OnceishError } from '../core/errors.ts'
import type { Commit, Store, StoreProbe } from '../store/store.ts'
import type { Target, WriteGate } from '../target/target.ts'

/** In the order in which a request passes them. */
export const CRASH_POINTS = [
  'enqueue:before-commit',
  'enqueue:after-commit',
  /** The `invoking` row is written, and not committed. */
  'claim:before-commit',
  /** The intent is on disk, and nothing was called. */
  'claim:after-commit',
  /** Dialled; the first byte would leave now. */
  'call:before-write',
  /** The API has answered, and nobody has written it down: the window that onceish exists for. */
  'call:answered',
  'settle:before-commit',
  'settle:after-commit',
  /** Recovery was told what it asked, and has not yet decided. */
  'lookup:answered',
  'sweep:before-commit',
  /** What recovery decided is on disk; a replay or a new call that it permits has not begun. */
  'sweep:after-commit',
  'resolve:before-commit',
  'resolve:after-commit',
  'purge:before-commit',
  'purge:after-commit',
  /** What a store put back from a copy has forgotten is put in doubt. */
  'restore:before-commit',
  'restore:after-commit',
  /** Of an older file's schema, and of a new file's. */
  'migrate:before-commit',
  'migrate:after-commit',
  /** The copy is whole and verified, and has not taken its name. */
  'backup:before-commit',
  'backup:after-commit',
] as const
/** One of `CRASH_POINTS`. */
export type CrashPoint = (typeof CRASH_POINTS)[number]

/** Where, at which passing, and how. */
export interface Crash {
  readonly point: CrashPoint
  /** At which passing, counted from 1; default the first. */
  readonly nth?: number
  /**
   * `throw` (the default): this opened store is dead from then on, its file as a killed process leaves it. `SIGKILL`: the
   * process itself, for tests that start one.
   */
  readonly by?: 'throw' | 'SIGKILL'
}

export interface CrashSeams {
  readonly probe: StoreProbe
  readonly store: (store: Store) => Store
  readonly target: (target: Target) => Target
}

/** @param crash null: it never crashes. @throws OnceishError USAGE */
export function crashSeams(crash: Crash | null): CrashSeams {
  if (crash !== null && !CRASH_POINTS.includes(crash.point)) {
    throw new OnceishError('USAGE', `"${crash.point}" is no crash point: it is one of ${CRASH_POINTS.join(', ')}`)
  }
  let passed = 0
  let isDead = false

  function pass(point: CrashPoint): void {
    if (isDead) throw crashed(crash)
    if (point !== crash?.point || ++passed < (crash.nth ?? 1)) return
    if (crash.by === 'SIGKILL') process.kill(process.pid, 'SIGKILL')
    isDead = true
    throw crashed(crash)
  }

  /** For places whose caller takes a throw for an answer: the store refuses everything from here on. */
  function passQuietly(point: CrashPoint): boolean {
    try {
      pass(point)
      return true
    } catch {
      return false
    }
  }

  return {
    probe: (moment, commit) => {
      const point = pointOf(moment, commit)
      if (point !== null) pass(point)
    },
    store: (store) => mortal(store, () => (isDead ? crashed(crash) : null)),
    target: (target) => watched(target, passQuietly),
  }
}

function pointOf(moment: 'before-commit' | 'after-commit', commit: Commit): CrashPoint | null {
  const point = `${commit}:${moment}`
  return (CRASH_POINTS as readonly string[]).includes(point) ? (point as CrashPoint) : null
}

function crashed(crash: Crash | null): OnceishError {
  return new OnceishError('SIMULATED_CRASH', `crashed at ${crash?.point}, as told`)
}

/** A dead process asks the store for nothing more; and it leaves nothing beside the file, which a real one could not promise. */
function mortal(store: Store, death: () => OnceishError | null): Store {
  const alive = () => {
    const error = death()
    if (error !== null) throw error
  }
  const guard = (name: string, member: (...given: unknown[]) => unknown) =>
    SYNCHRONOUS.has(name)
      ? (...given: unknown[]) => {
          alive()
          return member(...given)
        }
      : async (...given: unknown[]) => {
          alive()
          return await member(...given)
        }
  const members = Object.entries(store).map(([name, member]) => [name, name === 'close' ? member : guard(name, member)])
  const guarded = Object.fromEntries(members) as Store
  return { ...guarded, facts: async () => ({ ...(await guarded.facts()), folderPath: null }) }
}

const SYNCHRONOUS: ReadonlySet<string> = new Set<keyof Store>([
  'enqueueIn',
  'watchChanges',
  'watchCommits',
  'onCommit',
  'onWork',
  'filesOf',
])

function watched(target: Target, pass: (point: CrashPoint) => boolean): Target {
  return new Proxy(target, {
    get: (whole, name) => {
      if (name === 'invoke') {
        const invoke: Target['invoke'] = async (prepared, options) => {
          let isPassed = false
          const passOnce = () => {
            const goesOn = isPassed || pass('call:before-write')
            isPassed = true
            return goesOn ? null : 'crashed'
          }
          const gate: WriteGate = (neededMs) => options.gate(neededMs) ?? passOnce()
          const outcome = await whole.invoke(prepared, { ...options, gate })
          pass('call:answered')
          return outcome
        }
        return invoke
      }
      if (name === 'lookup') {
        const lookup: Target['lookup'] = async (input, signal) => {
          const result = await whole.lookup(input, signal)
          pass('lookup:answered')
          return result
        }
        return lookup
      }
      const member: unknown = Reflect.get(whole, name)
      return typeof member === 'function' ? member.bind(whole) : member
    },
  })
}
