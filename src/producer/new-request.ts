// From what a caller gives to what the store takes: everything about a request is checked here, before anything is written.
import { randomUUID } from 'node:crypto'
import type { Duration } from '../config/code-target.ts'
import { parseDuration } from '../config/duration.ts'
import { jsonTexts } from '../core/canonical-json.ts'
import { OnceishError } from '../core/errors.ts'
import { MAX_KEY_BYTES, MAX_PRIORITY } from '../core/limits.ts'
import { hashCanonical } from '../core/logical-hash.ts'
import { checkPayload, type PayloadSchema } from '../core/payload-schema.ts'
import { DEDUPES, type Dedupe, type PolicyOf, type TargetPolicy } from '../core/policy.ts'
import { didYouMean } from '../core/suggest.ts'
import type { NewRequest, Refusal } from '../store/store.ts'

/** One unit of work owed. */
export interface EnqueueRequest<Target extends string = string, Payload = unknown> {
  /** A name of the config. */
  readonly target: Target
  /** Plain JSON, as the target's schema takes it: what JSON cannot say as it stands (undefined, NaN, a Date, a cycle) is refused. */
  readonly payload: Payload
  /** -32767 to 32767, default 0; higher goes first. */
  readonly priority?: number | undefined
  /** When it is due: epoch ms, a Date, or ISO 8601 text with a zone. Absent or past: now. */
  readonly runAt?: GivenInstant | undefined
  /** Instead of `runAt`: it is due so long after it is enqueued, as milliseconds or text such as `15m`. */
  readonly delay?: Duration | undefined
  /**
   * Past it no call begins any more, and the request ends dead (`expired`); one in doubt is still reconciled. As `runAt`. Default
   * the target's `expiresAfter`; null: it never expires.
   */
  readonly expiresAt?: GivenInstant | null | undefined
  /**
   * 1 to 256 bytes: of one target, requests with the same key are called one at a time, in the order in which they were enqueued.
   * No part of what makes two requests the same: one that is there already keeps the key that it has.
   */
  readonly orderingKey?: string | undefined
  /**
   * 1 to 256 bytes, such as a customer's id: of one target, groups take turns at being called, one request each, so that the flood of
   * one keeps the others waiting for no more than a round; within a group the priority counts. Those without one stand together as
   * a group of their own. As `orderingKey`, no part of what makes two requests the same.
   */
  readonly group?: string | undefined
  /** What makes two requests the same; absent: derived from target and payload. */
  readonly logicalHash?: string | undefined
  /** Default the target's. */
  readonly dedupe?: Dedupe | undefined
}

/** What a request says, in code and in a line of NDJSON. */
export const REQUEST_FIELDS = [
  'target',
  'payload',
  'priority',
  'logicalHash',
  'runAt',
  'delay',
  'expiresAt',
  'orderingKey',
  'group',
  'dedupe',
] as const satisfies readonly (keyof EnqueueRequest)[]

/** Epoch ms, a Date, or ISO 8601 text with a zone. */
export type GivenInstant = number | Date | string

export interface RequestRules {
  /** Of enqueueing. */
  readonly now: () => number
  readonly maxPayloadBytes: number
  /** Undefined: the config does not name this target. */
  readonly policyOf: PolicyOf
  readonly targetNames: readonly string[]
  /** Undefined: the target takes whatever is JSON. */
  readonly schemaOf: (target: string) => PayloadSchema | undefined
}

/**
 * What the store takes; a promise of it where the target's schema itself takes time.
 * @throws OnceishError TARGET_UNKNOWN, REQUEST_INVALID, PAYLOAD_INVALID, PAYLOAD_NOT_CANONICAL, PAYLOAD_TOO_LARGE
 */
export function toNewRequest(request: EnqueueRequest, rules: RequestRules): NewRequest | Promise<NewRequest> {
  if (typeof request !== 'object' || request === null) {
    throw new OnceishError('REQUEST_INVALID', `a request is { target, payload, ... }, not ${request}`)
  }
  refuseUnknownFields(request)
  const schema = rules.schemaOf(request.target)
  if (schema === undefined) return checkedRequest(request, request.payload, rules)
  const payload = checkPayload(schema, request.payload, request.target)
  // What else the caller's object says is read at the call, too.
  return payload instanceof Promise
    ? lateRequest({ ...request }, payload, rules)
    : checkedRequest(request, payload, rules)
}

/** A field that is misspelled would be a wish that nobody hears: a deadline, an order, a group. */
function refuseUnknownFields(request: EnqueueRequest): void {
  for (const name of Object.keys(request)) {
    if ((REQUEST_FIELDS as readonly string[]).includes(name)) continue
    const said = `a request has no field ${JSON.stringify(name)}${didYouMean(name, REQUEST_FIELDS)}`
    throw new OnceishError('REQUEST_INVALID', `${said} (known: ${REQUEST_FIELDS.join(', ')})`)
  }
}

async function lateRequest(request: EnqueueRequest, late: Promise<unknown>, rules: RequestRules): Promise<NewRequest> {
  return checkedRequest(request, await late, rules)
}

function checkedRequest(request: EnqueueRequest, given: unknown, rules: RequestRules): NewRequest {
  const policy = targetPolicy(request.target, rules)
  const dedupe = dedupeOf(request, policy)
  const { text: payload, canonical } = jsonTexts(given)
  const { logicalHash, ledgerHash, payloadHash } = hashCanonical({
    target: request.target,
    canonical,
    given: request.logicalHash,
    nonce: dedupe === 'none' ? randomUUID() : undefined,
  })
  const bytes = Buffer.byteLength(payload)
  if (bytes > rules.maxPayloadBytes) {
    throw new OnceishError(
      'PAYLOAD_TOO_LARGE',
      `the payload has ${bytes} bytes, the limit is ${rules.maxPayloadBytes} (maxPayloadBytes): store it elsewhere and send a reference`,
      { details: { bytes, limit: rules.maxPayloadBytes } },
    )
  }
  return {
    target: request.target,
    payload,
    logicalHash,
    ledgerHash,
    payloadHash,
    priority: request.priority === undefined ? 0 : checkedPriority(request.priority),
    ...timesOf(request, policy, rules.now),
    orderingKey: keyOf(request, 'orderingKey'),
    group: keyOf(request, 'group'),
    dedupe,
  }
}

function targetPolicy(target: string, rules: RequestRules): TargetPolicy {
  const policy = typeof target === 'string' ? rules.policyOf(target) : undefined
  if (policy !== undefined) return policy
  throw new OnceishError(
    'TARGET_UNKNOWN',
    `the config names no target ${JSON.stringify(target)}${didYouMean(String(target), rules.targetNames)} (known: ${rules.targetNames.join(', ') || 'none'})`,
  )
}

/** Equal payloads that are different requests must be told apart by the lookup, or one would adopt the other's task. */
function dedupeOf(request: EnqueueRequest, policy: TargetPolicy): Dedupe {
  const dedupe = request.dedupe === undefined ? policy.dedupe : request.dedupe
  if (!DEDUPES.includes(dedupe)) {
    throw new OnceishError('REQUEST_INVALID', `dedupe is ${DEDUPES.join(', ')}, not ${JSON.stringify(dedupe)}`)
  }
  if (dedupe === 'always' || policy.lookup === null || policy.lookup.dependsOnKey) return dedupe
  throw new OnceishError(
    'REQUEST_INVALID',
    `dedupe "${dedupe}" needs a lookup by $key: target "${request.target}" could take another request's task for this one's`,
  )
}

/** @throws OnceishError REQUEST_INVALID */
export function checkedPriority(priority: number): number {
  if (Number.isInteger(priority) && Math.abs(priority) <= MAX_PRIORITY) return priority
  throw new OnceishError(
    'REQUEST_INVALID',
    `priority is a whole number from -${MAX_PRIORITY} to ${MAX_PRIORITY}, not ${JSON.stringify(priority)}`,
  )
}

function keyOf(request: EnqueueRequest, name: 'orderingKey' | 'group'): string | null {
  const key = request[name]
  if (key === undefined) return null
  // Not every engine can store a NUL.
  if (typeof key === 'string' && key.isWellFormed() && !key.includes('\0')) {
    const bytes = Buffer.byteLength(key)
    if (key.trim() !== '' && bytes <= MAX_KEY_BYTES) return key
  }
  const given = typeof key === 'string' ? `${Buffer.byteLength(key)} bytes` : typeof key
  throw new OnceishError(
    'REQUEST_INVALID',
    `${name} is well-formed text without NUL, not blank, of 1 to ${MAX_KEY_BYTES} bytes in UTF-8, not ${given}: use an id, or a hash of what is longer`,
  )
}

const ISO_WITH_ZONE = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/

function timesOf(
  { runAt, delay, expiresAt: given }: EnqueueRequest,
  { expiresAfterMs }: TargetPolicy,
  now: () => number,
): Pick<NewRequest, 'dueAt' | 'expiresAt'> {
  if (runAt !== undefined && delay !== undefined)
    throw new OnceishError('REQUEST_INVALID', 'runAt and delay both say when it is due: give one of them')
  const dueAt = runAt === undefined ? dueAfter(delay, now) : checkedInstant('runAt', runAt)
  if (given === undefined && expiresAfterMs !== null) return { dueAt, expiresAt: (dueAt ?? now()) + expiresAfterMs }
  return { dueAt, expiresAt: given === undefined || given === null ? null : checkedInstant('expiresAt', given) }
}

function dueAfter(delay: Duration | undefined, now: () => number): number | null {
  if (delay === undefined) return null
  try {
    return now() + parseDuration(typeof delay === 'number' ? delay : String(delay))
  } catch (error) {
    throw new OnceishError('REQUEST_INVALID', `delay: ${(error as Error).message}`, { cause: error })
  }
}

/** It would never be called. */
function expiredError(expiresAt: number, dueAt: number): OnceishError {
  const [deadline, due] = [expiresAt, dueAt].map((at) => new Date(at).toISOString())
  return new OnceishError(
    'REQUEST_INVALID',
    `expiresAt (${deadline}) is not after it is due (${due}), so that it could never be called: nothing was queued; give a later one, or none`,
    { details: { expiresAt, dueAt } },
  )
}

/** @param name of the field, for the message. @throws OnceishError REQUEST_INVALID */
export function checkedInstant(name: string, given: GivenInstant): number {
  const at =
    given instanceof Date
      ? given.getTime()
      : typeof given === 'string' && ISO_WITH_ZONE.test(given)
        ? Date.parse(given)
        : given
  if (typeof at === 'number' && Number.isInteger(at) && at >= 0 && at <= 8.64e15) return at
  throw new OnceishError(
    'REQUEST_INVALID',
    `${name} is epoch milliseconds or ISO 8601 with a zone, such as 2027-01-31T09:00:00Z, not ${JSON.stringify(given) ?? String(given)}`,
  )
}

/** Of what the store did not take. */
export function refusalError(result: Refusal): OnceishError {
  return result.kind === 'conflict' ? conflictError(result.requestId) : expiredError(result.expiresAt, result.dueAt)
}

function conflictError(requestId: number): OnceishError {
  return new OnceishError(
    'LOGICAL_HASH_CONFLICT',
    `request ${requestId} has the same logical hash and another payload: nothing was queued; use another logical hash, or cancel that request`,
    { details: { requestId } },
  )
}
