// What a seed decides: which requests there are and what their first call meets, who is killed, and after how much work.
import { KINDS, type Kind } from '../../fixtures/api/ledger.ts'
import { type Chance, createChance, type Weights } from '../simulation/chance.ts'

export interface PlannedRequest {
  readonly target: Kind
  readonly payload: { readonly n: number; readonly fault: string }
  readonly priority: number
}

const FAULTS: Weights<string> = [
  ['none', 58],
  ['slow:200', 8],
  ['slow_before:150', 6],
  ['cut', 5],
  ['reset_after', 5],
  ['reset_before', 4],
  ['429:1', 4],
  ['502_after', 4],
  ['500_before', 2],
  ['hang_after', 1],
  ['late_effect:200', 1],
  ['400', 2],
]

const KNUTH = 2_654_435_761

/** The same number is the same request, whoever asks for it and however often. */
export function requestOf(seed: number, n: number): PlannedRequest {
  const chance = createChance(seed ^ Math.imul(n, KNUTH))
  return { target: chance.pick(KINDS), payload: { n, fault: chance.weigh(FAULTS) }, priority: chance.below(3) }
}

export type Victim = 'worker 1' | 'worker 2' | 'both workers' | 'producer'
const VICTIMS: Weights<Victim> = [
  ['worker 1', 40],
  ['worker 2', 40],
  ['both workers', 12],
  ['producer', 8],
]

export interface PlannedKill {
  readonly victim: Victim
  /** Calls that the API sees since the last kill, and milliseconds after them. */
  readonly afterCalls: number
  readonly afterMs: number
  /** How long the dead one stays down. */
  readonly restMs: number
}

export function nextKill(chance: Chance): PlannedKill {
  const victim = chance.weigh(VICTIMS)
  return {
    victim,
    afterCalls: 5 + chance.below(60),
    afterMs: chance.below(40),
    restMs: chance.is(0.2) ? 1800 : chance.below(500),
  }
}
