// What the machine does to the store passes, or a person mends it: it is borne, told once, and tried again with backoff.
import { type ErrorCode, isOnceishError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Counting } from './counters.ts'

export interface Trouble {
  readonly isOn: boolean
  /** @returns how long to wait before the next try; null: this is not the machine's, and not to be borne. */
  bear(error: unknown, answers: number): number | null
  /** Everything that the worker wants of the store went well again. */
  end(): void
}

const FIRST_MS = 100
const MAX_MS = 5000

const COUNTED = {
  STORE_BUSY: 'storeBusy',
  STORE_FULL: 'storeFull',
  STORE_UNREACHABLE: 'storeUnreachable',
  STORE_IO_FAILED: 'storeFailed',
  STORE_UNWRITABLE: 'storeFailed',
  STORE_NOT_FOUND: 'storeFailed',
} as const satisfies Partial<Record<ErrorCode, keyof Counting>>

export function createTrouble(log: Log, counters: Counting): Trouble {
  let failures = 0
  const told = new Set<string>()

  return {
    get isOn() {
      return failures > 0
    },
    bear: (error, answers) => {
      if (!isOnceishError(error) || !isBorne(error.code)) return null
      counters[COUNTED[error.code]]++
      if (!told.has(error.code)) {
        told.add(error.code)
        log.error({ err: error, answers }, 'the store takes no writes: claiming stops, answers are kept')
      }
      return Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(failures++, 10))
    },
    end: () => {
      if (failures === 0) return
      // At the level at which the trouble is heard of: else it never ends there.
      log.warn({ troubles: failures }, 'the store is well again')
      failures = 0
      told.clear()
    },
  }
}

function isBorne(code: ErrorCode): code is keyof typeof COUNTED {
  return Object.hasOwn(COUNTED, code)
}
