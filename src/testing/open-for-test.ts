// `openOnceish` with a crash in it.
import type { Onceish, OpenConfig, OpenOptions, OpenTargets } from '../api.ts'
import type { GivenTarget, PayloadsOf } from '../config/in-code.ts'
import { composeOnceish } from '../onceish.ts'
import { type Crash, type CrashPoint, crashSeams } from './crash.ts'

/** What a test asks for besides. */
export interface TestSettings {
  /** Where it crashes; absent: nowhere. */
  readonly crashAt?: CrashPoint | Crash
}

/**
 * As `openOnceish`. After the crash every method, and `worker.done`, rejects with SIMULATED_CRASH; `close` it, and open the
 * store again as the process that comes after.
 */
export function openForTest<const Targets extends readonly GivenTarget[]>(
  options: OpenTargets<Targets> & TestSettings,
): Promise<Onceish<PayloadsOf<Targets>>>
export function openForTest(options: OpenConfig & TestSettings): Promise<Onceish>
export async function openForTest({ crashAt, ...options }: OpenOptions & TestSettings): Promise<Onceish> {
  return composeOnceish(options, crashSeams(typeof crashAt === 'string' ? { point: crashAt } : (crashAt ?? null)))
}
