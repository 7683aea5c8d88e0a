// What onceish promises for a target and under which assumptions, in words, from its description alone.
import type { CareDefinition } from '../config/target-definition.ts'
import { duration } from './print.ts'

export type TargetKind = 'client id' | 'keyed' | 'lookup only' | 'opaque'

/** A target in code names no header: whether its key is sent, only the code knows. */
type Careful = CareDefinition & { readonly idempotency: { readonly header?: string | null } | null }

export function kindOf({ idempotency, lookup }: Careful): TargetKind {
  if (idempotency?.clientId) return 'client id'
  if (idempotency !== null && (idempotency.header || idempotency.rememberedForMs !== null)) return 'keyed'
  return lookup === null ? 'opaque' : 'lookup only'
}

export function promiseOf({ idempotency, lookup, recovery }: CareDefinition): string {
  const remembered = recovery.includes('replay') ? (idempotency?.rememberedForMs ?? null) : null
  const within =
    remembered === null
      ? ''
      : remembered === 'forever'
        ? ' as long as the API remembers'
        : ` within ${duration(remembered)}`
  const callsAgain = lookup !== null && recovery.includes('lookup') && lookup.missMeans === 'absent'
  if (callsAgain) return `exactly 1${within}, given a truthful lookup settled after ${duration(lookup.settleMs)}`
  return remembered === null ? 'at most 1 without your word' : `exactly 1${within}`
}
