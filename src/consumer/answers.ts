// Answers between the socket and the commit that settles them. While the store takes no writes they are kept here, and on
// disk where that is possible; what others left there is taken over.
import type { Log } from '../core/log.ts'
import type { AttemptResult } from '../core/settlement.ts'
import {
  clearSpill,
  formerRequests,
  removeSpill,
  type SpilledFile,
  type SpillPlace,
  takeSpills,
  writeSpill,
} from '../store/spill.ts'
import type { Counting } from './counters.ts'

export interface Answers {
  add(result: AttemptResult): void
  /** What the next turn is to settle. */
  readonly waiting: readonly AttemptResult[]
  /** A commit has settled the first `count` of them. */
  settled(count: number): void
  /** The store takes no writes: those not yet on disk go there. */
  spill(): void
  /** Every waiting answer is on disk. */
  isSafe(): boolean
  /** Reads back what dead workers have left; files with unreadable lines are read once in this worker's life. */
  takeOver(): void
}

export interface AnswersOptions {
  /** Null where the store has no folder. */
  readonly place: SpillPlace | null
  /** Whether anybody describes a target's answers. */
  readonly isKnown: (target: string) => boolean
  readonly log: Log
  readonly counters: Counting
}

/** In one line of the log. */
const SHOWN_REQUESTS = 100

export function createAnswers({ place, isKnown, log, counters }: AnswersOptions): Answers {
  let waiting: AttemptResult[] = []
  let spilled = 0
  let taken: SpilledFile[] = []
  /** Of those that wait, the first so many hold all that was taken over. */
  let takenWithin = 0
  const broken = new Set<string>()
  /** Files that are a person's to read. */
  const toldOf = new Set<string>()

  /**
   * The files are a net below the store: trouble with them is told, once until it is over, and ends nothing; settling an
   * answer twice is harmless.
   */
  function attempt<T>(what: string, work: () => T): T | null {
    try {
      const done = work()
      broken.delete(what)
      return done
    } catch (error) {
      if (!broken.has(what)) log.error({ err: error, answers: waiting.length }, `${what} failed`)
      broken.add(what)
      return null
    }
  }

  function takeOver(): void {
    if (place === null || taken.length > 0) return
    for (const file of attempt('reading spills', () => takeSpills(place, toldOf)) ?? []) {
      tellFormer(file)
      if (toldOf.has(file.path)) continue
      const mine = file.results.filter(({ target }) => isKnown(target))
      const left = file.unreadable + file.results.length - mine.length
      log[left > 0 ? 'warn' : 'info']({ file: file.path, answers: mine.length, left }, 'taking over spilled answers')
      if (mine.length === 0) attempt('removing a spill', () => removeSpill({ ...file, unreadable: left }))
      else taken.push({ ...file, unreadable: left })
      counters.answersReadBack += mine.length
      waiting = [...waiting, ...mine]
    }
    takenWithin = waiting.length
  }

  /** The request may have been called again since, so that they settle nothing. */
  function tellFormer(file: SpilledFile): void {
    const { path, results, former } = file
    if (former.length === 0) return
    log.warn(
      { file: path, answers: former.length, requests: formerRequests(file).slice(0, SHOWN_REQUESTS) },
      'answers to calls of the time before the store was put back are used for nothing: read them before these requests are resolved, then remove the file',
    )
    if (results.length === 0) toldOf.add(path)
  }

  return {
    add: (result) => {
      waiting.push(result)
    },
    get waiting() {
      return waiting
    },
    settled: (count) => {
      waiting = waiting.slice(count)
      const isOwnOver = place !== null && spilled > 0 && count >= spilled
      if (isOwnOver) attempt('clearing the spill', () => clearSpill(place))
      spilled = Math.max(0, spilled - count)
      takenWithin = Math.max(0, takenWithin - count)
      if (takenWithin > 0) return
      for (const file of taken) attempt('removing a spill', () => removeSpill(file))
      taken = []
    },
    spill: () => {
      if (place === null || waiting.length === spilled) return
      const unsafe = waiting.slice(spilled)
      attempt('spilling answers, which are now only in memory,', () => {
        writeSpill(place, unsafe)
        spilled = waiting.length
        counters.answersSpilled += unsafe.length
      })
    },
    isSafe: () => waiting.length === spilled,
    takeOver,
  }
}
