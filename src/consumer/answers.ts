// Answers between the socket and the commit that settles them. While the store takes no writes they are kept here, and on
// disk where that is possible; what others left there is taken over.
import type { Log } from '../core/log.ts'
import type { AttemptResult } from '../core/settlement.ts'
import { clearSpill, removeSpill, type SpilledFile, type SpillPlace, takeSpills, writeSpill } from './spill.ts'

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

/** @param place null where the store has no folder. @param isKnown whether anybody describes a target's answers. */
export function createAnswers(place: SpillPlace | null, isKnown: (target: string) => boolean, log: Log): Answers {
  let waiting: AttemptResult[] = []
  let spilled = 0
  let taken: SpilledFile[] = []

  /** The files are a net below the store: trouble with them is told and ends nothing; settling an answer twice is harmless. */
  function attempt<T>(what: string, work: () => T): T | null {
    try {
      return work()
    } catch (error) {
      log.error({ err: error }, `${what} failed`)
      return null
    }
  }

  function takeOver(): void {
    if (place === null || taken.length > 0) return
    for (const file of attempt('reading spills', () => takeSpills(place)) ?? []) {
      const mine = file.results.filter(({ target }) => isKnown(target))
      const left = file.unreadable + file.results.length - mine.length
      log.info({ file: file.path, answers: mine.length, left }, 'taking over spilled answers')
      if (mine.length === 0) attempt('removing a spill', () => removeSpill({ ...file, unreadable: left }))
      else taken.push({ ...file, unreadable: left })
      waiting.push(...mine)
    }
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
      for (const file of taken) attempt('removing a spill', () => removeSpill(file))
      taken = []
    },
    spill: () => {
      if (place === null || waiting.length === spilled) return
      try {
        writeSpill(place, waiting.slice(spilled))
        spilled = waiting.length
      } catch (error) {
        log.error(
          { err: error, answers: waiting.length - spilled },
          'answers could not be spilled: they are only in memory',
        )
      }
    },
    isSafe: () => waiting.length === spilled,
    takeOver,
  }
}
