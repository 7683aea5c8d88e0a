// What the services need to know of a declarative target: how careful to be with it, and which description it is.
import { createHash } from 'node:crypto'
import { canonicalJson } from '../core/canonical-json.ts'
import type { KeyPolicy, LookupPolicy, TargetPolicy } from '../core/policy.ts'
import type { IdempotencyDefinition, TargetDefinition } from './target-definition.ts'
import { lookupDependsOnKey } from './target-templates.ts'

export function policyOf(definition: TargetDefinition): TargetPolicy {
  const { submit, retry, recovery, idempotency, cancel, status, deadlineMs, dedupe, limits } = definition
  return {
    timeoutMs: submit.timeoutMs,
    retry,
    recovery,
    key: idempotency === null ? null : keyPolicyOf(idempotency),
    lookup: lookupPolicyOf(definition),
    canCancel: cancel !== null,
    tracking: status === null ? null : { everyMs: status.everyMs },
    deadlineMs,
    dedupe,
    limits,
  }
}

/** Changes with anything in the description: the first 16 hex characters of its SHA-256. */
export function definitionVersion(definition: TargetDefinition): string {
  return createHash('sha256').update(canonicalJson(definition)).digest('hex').slice(0, 16)
}

function keyPolicyOf(idempotency: IdempotencyDefinition): KeyPolicy {
  const { clientId, rememberedForMs, marginMs, arrivalMs, failedFirst, maxReplays } = idempotency
  return { clientId, rememberedForMs, marginMs, arrivalMs, failedFirst, maxReplays }
}

function lookupPolicyOf(definition: TargetDefinition): LookupPolicy | null {
  if (definition.lookup === null) return null
  const { settleMs, everyMs, misses, missMeans, remembersMs } = definition.lookup
  return { settleMs, everyMs, misses, missMeans, remembersMs, dependsOnKey: lookupDependsOnKey(definition) }
}
