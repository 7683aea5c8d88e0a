// What a turn asks the server for: whom it is about, which locks it takes, and which answers the server may settle by itself.
import { NO_POLICY } from '../../core/policy.ts'
import { type AttemptResult, tracked } from '../../core/settlement.ts'
import { PASSED_OVER_A_TURN } from '../bounds.ts'
import { brief } from '../sqlite/settle.ts'
import type { TurnInput } from '../turn.ts'
import { lockId } from './locks.ts'

export interface Asked {
  /** The caller's time counts; else the server's. */
  readonly isTimeGiven: boolean
  /** Looks for leases that are over. */
  readonly leases: boolean
  /** Each settlement has a savepoint: none is left to the server. */
  readonly isGuarded: boolean
}

/** Parameters of `turn_rows`. @param s the schema, quoted. */
export function turnArguments(s: string, input: TurnInput, asked: Asked): [about: string, plain: string] {
  const plain = asked.isGuarded ? [] : input.results.flatMap((result) => plainOf(input, result))
  return [JSON.stringify(aboutOf(s, input, asked)), JSON.stringify(plain)]
}

function aboutOf(s: string, input: TurnInput, { isTimeGiven, leases }: Asked): object {
  const { claim, check } = input
  const limited = claim.targets.filter(({ policy: { limits } }) => {
    return limits.concurrency !== null || limits.rate !== null || limits.bucket !== undefined
  })
  const scopes = limited.flatMap(({ name, policy }) => [
    `target ${name}`,
    ...(policy.limits.bucket === undefined ? [] : [`bucket ${policy.limits.bucket}`]),
  ])
  const said = [...input.results, ...input.reconciliations, ...input.trackings]
  const ids = [...said, ...input.renewals].map(({ requestId }) => requestId)
  return {
    now: isTimeGiven ? input.now() : null,
    // In one order for everybody.
    locks:
      claim.slots > 0 || input.reconciliations.length > 0
        ? [...new Set(scopes)].map((scope) => lockId(s, 'limits', scope)).toSorted()
        : [],
    ids: [...new Set(ids)],
    answered: [...new Set(said.map(({ target }) => target))],
    slots: Math.max(0, claim.slots),
    targets: claim.targets.map(({ name }) => name),
    from: claim.lookFrom ?? '',
    limited: limited.map(({ name }) => name),
    checks: check.slots > 0 ? check.slots + PASSED_OVER_A_TURN : 0,
    leases,
  }
}

/** A first attempt that was accepted, as `settle_plainly` takes it: where that is all that is to be said of its request. */
function plainOf(input: TurnInput, { requestId, attempt, nonce, outcome, endedAt, target }: AttemptResult): object[] {
  const policy = input.policyOf(target) ?? NO_POLICY
  if (outcome.kind !== 'accepted' || typeof outcome.taskId !== 'string' || attempt !== 1) return []
  // Its payload is kept, or its end is counted.
  if (policy.keepPayloadMs !== null || (policy.breaker?.rate ?? null) !== null) return []
  if (input.results.filter((other) => other.requestId === requestId).length > 1) return []
  const next_check_at = tracked(policy, input.now()).nextCheckAt ?? null
  const evidence = JSON.stringify(brief(outcome.evidence))
  return [
    { request_id: requestId, attempt, nonce, task_id: outcome.taskId, ended_at: endedAt, next_check_at, evidence },
  ]
}
