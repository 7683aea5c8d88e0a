// What the services need to know of a target: how careful to be with it, and which description it is.
import { createHash } from 'node:crypto'
import { canonicalJson } from '../core/canonical-json.ts'
import { type KeyPolicy, type LookupPolicy, NO_POLICY, type TargetPolicy } from '../core/policy.ts'
import { waitOf } from './care-schema.ts'
import type { CareDefinition, LookupTimes, TargetDefinition } from './target-definition.ts'
import { lookupDependsOnKey } from './target-templates.ts'

export function policyOf(definition: TargetDefinition): TargetPolicy {
  const { cancel, status } = definition
  return policyWith(definition, {
    dependsOnKey: definition.lookup !== null && lookupDependsOnKey(definition),
    canCancel: cancel !== null,
    tracking: status === null ? null : { everyMs: status.everyMs },
  })
}

/** @param calls what only the calls themselves can tell. */
export function policyWith(
  care: CareDefinition,
  calls: Pick<TargetPolicy, 'canCancel' | 'tracking'> & { readonly dependsOnKey: boolean },
): TargetPolicy {
  const { submit, retry, recovery, idempotency, lookup, deadlineMs, dedupe, limits } = care
  const { dependsOnKey, ...able } = calls
  return {
    timeoutMs: submit.timeoutMs,
    retry,
    recovery,
    key: idempotency === null ? null : keyPolicyOf(idempotency),
    lookup: lookup === null ? null : lookupPolicyOf(lookup, dependsOnKey),
    ...able,
    deadlineMs,
    dedupe,
    keepPayloadMs: care.keepPayloadMs ?? null,
    limits,
    expiresAfterMs: care.expiresAfterMs ?? null,
    agingMs: care.agingMs ?? null,
    onDead: care.onDead ?? NO_POLICY.onDead,
    rateLimit: { ...NO_POLICY.rateLimit, ...waitOf(care.rateLimit ?? {}) },
    breaker: care.breaker === undefined ? NO_POLICY.breaker : care.breaker,
  }
}

/** Changes with anything in the description: the first 16 hex characters of its SHA-256. */
export function definitionVersion(definition: TargetDefinition): string {
  return createHash('sha256').update(canonicalJson(definition)).digest('hex').slice(0, 16)
}

function keyPolicyOf(idempotency: NonNullable<CareDefinition['idempotency']>): KeyPolicy {
  const { clientId, rememberedForMs, marginMs, arrivalMs, failedFirst, maxReplays } = idempotency
  return { clientId, rememberedForMs, marginMs, arrivalMs, failedFirst, maxReplays }
}

function lookupPolicyOf(lookup: LookupTimes, dependsOnKey: boolean): LookupPolicy {
  const { settleMs, everyMs, misses, missMeans, remembersMs } = lookup
  return { settleMs, everyMs, misses, missMeans, remembersMs, dependsOnKey }
}
