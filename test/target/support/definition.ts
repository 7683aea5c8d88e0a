// A target's description as the config would fill it in, with the parts that a test cares about.
import type {
  IdempotencyDefinition,
  LookupDefinition,
  SideCallDefinition,
  SubmitDefinition,
  TargetDefinition,
} from '../../../src/config/target-definition.ts'
import type { PrepareInput } from '../../../src/target/target.ts'

export type DefinitionParts = Partial<Omit<TargetDefinition, 'submit' | 'idempotency' | 'lookup' | 'cancel'>> & {
  readonly submit?: Partial<SubmitDefinition>
  readonly idempotency?: Partial<IdempotencyDefinition> | null
  readonly lookup?: Partial<LookupDefinition>
  readonly cancel?: Partial<SideCallDefinition>
}

const NO_BODY = { kind: 'none', template: null } as const

export function definitionOf(parts: DefinitionParts = {}): TargetDefinition {
  const { submit, idempotency, lookup, cancel, ...others } = parts
  return {
    name: 'transcribe',
    submit: {
      method: 'POST',
      url: 'http://127.0.0.1:1/jobs',
      headers: {},
      body: { kind: 'json', template: '{% $payload %}' },
      timeoutMs: 3000,
      connectMs: 2000,
      headersMs: 3000,
      bodyMs: 3000,
      maxResponseBytes: 65_536,
      connection: 'reuse',
      ...submit,
    },
    idempotency: idempotency === undefined || idempotency === null ? null : { ...IDEMPOTENCY, ...idempotency },
    taskId: '{% $response.body.id %}',
    success: [200, 201, 202],
    outcomes: [],
    existsOurs: null,
    lookup: lookup === undefined ? null : { ...LOOKUP, ...lookup },
    recovery: ['hold'],
    retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300_000 },
    deadlineMs: 86_400_000,
    limits: { concurrency: null, rate: null },
    rateLimit: { statuses: [429], headers: ['Retry-After'] },
    cancel: cancel === undefined ? null : { ...SIDE_CALL, method: 'DELETE', ...cancel },
    status: null,
    dedupe: 'always',
    account: null,
    ...others,
  }
}

export function inputOf(parts: Partial<PrepareInput> = {}): PrepareInput {
  return {
    payload: '{"n":1}',
    key: 'c0ffee00-0000-4000-8000-000000000001',
    request: { requestId: 5, logicalHash: 'v1:aa', generation: 1, priority: 0 },
    ...parts,
  }
}

const SIDE_CALL = {
  method: 'GET',
  url: 'http://127.0.0.1:1/jobs',
  headers: {},
  body: NO_BODY,
  timeoutMs: 3000,
} as const

const IDEMPOTENCY: IdempotencyDefinition = {
  clientId: false,
  header: 'Idempotency-Key',
  format: { kind: 'uuid', length: 36 },
  rememberedForMs: 86_400_000,
  marginMs: 3_600_000,
  arrivalMs: 30_000,
  failedFirst: 'unknown',
  maxReplays: 20,
}

const LOOKUP: LookupDefinition = {
  ...SIDE_CALL,
  taskId: '{% $response.body.data.id %}',
  complete: '{% $response.body.has_more = false %}',
  found: null,
  absent: null,
  settleMs: 60_000,
  everyMs: 60_000,
  misses: 2,
  missMeans: 'hold',
  remembersMs: null,
}
