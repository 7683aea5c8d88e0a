// Refuses targets that cannot be kept safe: rules across fields, each named after what it asks for. A rule returns its
// faults, with paths below the target; nothing here changes a definition.
import { retryHorizonMs } from '../core/backoff.ts'
import { OnceishError } from '../core/errors.ts'
import { formatDuration } from './duration.ts'
import type { CompiledTemplate } from './expression.ts'
import type { Fault } from './faults.ts'
import type { CareDefinition, TargetDefinition } from './target-definition.ts'
import { lookupDependsOnKey, type TemplatePlace, templatesOf, tryCompile, variablesOf } from './target-templates.ts'

/** How much longer than a call its lease must be. */
const LEASE_SLACK_MS = 500
const BITS_PER_HEX_DIGIT = 4
const LEAST_KEY_BITS = 120
/** Set by the transport itself, or by its framing of the body. */
const TRANSPORT_HEADERS = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'expect'])

type Section = keyof TargetDefinition

interface Rule<Target> {
  readonly check: (target: Target) => readonly Fault[]
  /** Sections whose absence or defaults would mislead it. */
  readonly weighs: readonly Section[]
}

/** Of every target, whether its calls are described or code. */
const CARE_RULES: readonly Rule<CareDefinition>[] = [
  { check: ladderIsWhole, weighs: ['recovery'] },
  { check: keyIsWide, weighs: [] },
  { check: rungsCanBeClimbed, weighs: ['recovery', 'lookup', 'idempotency'] },
  { check: marginCoversACall, weighs: ['idempotency', 'submit'] },
  { check: retriesFitTheWindow, weighs: ['idempotency', 'submit', 'retry'] },
  { check: missesAreWorthSomething, weighs: ['lookup'] },
]

const RULES: readonly Rule<TargetDefinition>[] = [
  { check: templatesFitTheirPlaces, weighs: [] },
  { check: headersAreOurs, weighs: [] },
  { check: keyIsThereAndSent, weighs: ['idempotency', 'submit'] },
  ...CARE_RULES,
  { check: lookupFindsItsRequest, weighs: ['lookup', 'dedupe'] },
]

/** @param faulty sections with faults of their own, which were left out: what weighs them is not judged. */
export function targetFaults(target: TargetDefinition, faulty: ReadonlySet<string> = new Set()): Fault[] {
  return faultsBy(RULES, target, faulty)
}

/** The same for a target whose calls are code. */
export function careFaults(target: CareDefinition, faulty: ReadonlySet<string> = new Set()): Fault[] {
  return faultsBy(CARE_RULES, target, faulty)
}

function faultsBy<Target>(rules: readonly Rule<Target>[], target: Target, faulty: ReadonlySet<string>): Fault[] {
  return rules.filter(({ weighs }) => !weighs.some((name) => faulty.has(name))).flatMap(({ check }) => check(target))
}

/** A call and how long it may last. */
export interface TimedCall {
  /** As people find it: `targets.transcribe.submit.timeoutMs`. */
  readonly path: string
  readonly timeoutMs: number
}

/** A lease that ends within a call would let another worker look into it while it runs. */
export function leaseFaults(leaseMs: number, calls: readonly TimedCall[]): Fault[] {
  const longest = calls.reduce<TimedCall | null>(
    (slowest, call) => (slowest === null || call.timeoutMs > slowest.timeoutMs ? call : slowest),
    null,
  )
  if (longest === null || leaseMs >= longest.timeoutMs + LEASE_SLACK_MS) return []
  const least = longest.timeoutMs + LEASE_SLACK_MS
  const call = `${longest.path} (${longest.timeoutMs}) plus ${LEASE_SLACK_MS} ms`
  return [fault('worker.leaseMs', `${leaseMs} is shorter than a call: at least ${least}, which is ${call}`)]
}

function templatesFitTheirPlaces(target: TargetDefinition): Fault[] {
  return templatesOf(target).flatMap((place) => {
    try {
      return misplaced(place, place.compile())
    } catch (error) {
      if (!(error instanceof OnceishError)) throw error
      return [fault(place.path, error.message)]
    }
  })
}

function misplaced(place: TemplatePlace, template: CompiledTemplate): Fault[] {
  if (place.part === 'answer' && template.isConstant) {
    return [fault(place.path, 'is constant text; write an expression, as in {% $response.body.id %}')]
  }
  const faults = [...template.variables]
    .filter((name) => name !== 'env')
    .flatMap((name) => foreignVariable(place, name))
  return [...faults, ...misplacedEnv(place, template)]
}

function foreignVariable({ path, call, part }: TemplatePlace, name: string): Fault[] {
  if (name === 'response' && part !== 'answer') return [fault(path, '$response is not there before the answer')]
  if (name === 'taskId' && call === 'submit')
    return [fault(path, '$taskId is not there before the submit was answered')]
  if (name === 'payload' && call === 'status')
    return [fault(path, '$payload is gone once the request is submitted: ask by $taskId or $key')]
  return []
}

/** Whatever is frozen with an attempt or shown as evidence must not be able to hold a secret. */
function misplacedEnv({ path, call, part }: TemplatePlace, template: CompiledTemplate): Fault[] {
  if (!template.variables.has('env')) return []
  if (part !== 'header') return [fault(path, '$env is allowed in headers only: what stands elsewhere is stored')]
  const frozen = ['key', 'payload'].filter((name) => template.variables.has(name))
  if (call !== 'submit' || frozen.length === 0) return []
  const names = frozen.map((name) => `$${name}`).join(' and ')
  return [fault(path, `mixes $env with ${names}: a header with a secret is rendered anew, one with ${names} is frozen`)]
}

function keyIsThereAndSent(target: TargetDefinition): Fault[] {
  const places = templatesOf(target)
  const { idempotency } = target
  if (idempotency === null) return placesReading(places, 'key').map((place) => fault(place.path, KEYLESS))
  const submit = places.filter((place) => place.call === 'submit')
  const isAddressed = variablesOf(submit.filter(({ part }) => part === 'url' || part === 'body')).has('key')
  if (idempotency.clientId && !isAddressed) {
    return [
      fault('idempotency.clientId', 'needs $key in submit.url or in the body: it is the id that the API is given'),
    ]
  }
  const isSent = idempotency.header !== null || variablesOf(submit.filter(({ part }) => part !== 'answer')).has('key')
  return isSent
    ? []
    : [fault('idempotency', 'the key is sent nowhere: name a header, or use $key in url, headers or body')]
}

const KEYLESS = 'reads $key, and the target has none; add an idempotency section'

function placesReading(places: readonly TemplatePlace[], variable: string): TemplatePlace[] {
  return places.filter((place) => tryCompile(place)?.variables.has(variable) === true)
}

function headersAreOurs(target: TargetDefinition): Fault[] {
  const calls = (['submit', 'lookup', 'cancel', 'status'] as const).flatMap((call) => {
    const headers = target[call]?.headers ?? {}
    const keyHeader = call === 'submit' ? (target.idempotency?.header ?? null) : null
    return callHeaderFaults(`${call}.headers`, Object.keys(headers), keyHeader)
  })
  const keyHeader = target.idempotency?.header ?? ''
  if (!TRANSPORT_HEADERS.has(keyHeader.toLowerCase())) return calls
  return [...calls, fault('idempotency.header', `${keyHeader} belongs to the transport; name another`)]
}

function callHeaderFaults(path: string, names: readonly string[], keyHeader: string | null): Fault[] {
  const seen = new Set(keyHeader === null ? [] : [keyHeader.toLowerCase()])
  return names.flatMap((name) => {
    const lower = name.toLowerCase()
    if (TRANSPORT_HEADERS.has(lower)) return [fault(`${path}.${name}`, 'belongs to the transport; leave it out')]
    if (seen.has(lower)) return [fault(`${path}.${name}`, 'is given twice')]
    seen.add(lower)
    return []
  })
}

function ladderIsWhole({ recovery }: CareDefinition): Fault[] {
  const twice = recovery.filter((rung, i) => recovery.indexOf(rung) !== i)
  const faults = [...new Set(twice)].map((rung) => fault('recovery', `names ${rung} twice`))
  if (recovery.at(-1) === 'hold') return faults
  return [...faults, fault('recovery', 'must end in hold: a person decides what nothing else settles')]
}

function rungsCanBeClimbed({ recovery, lookup, idempotency }: CareDefinition): Fault[] {
  const faults: Fault[] = []
  if (recovery.includes('lookup') && lookup === null) {
    faults.push(fault('recovery', 'names lookup, and the target describes none; add a lookup section'))
  }
  if (!recovery.includes('replay')) return faults
  if (idempotency === null) {
    faults.push(fault('recovery', 'names replay, which needs a key; add an idempotency section'))
  } else if (idempotency.rememberedForMs === null) {
    const reason = 'names replay, and nobody knows how long the key is remembered; set idempotency.rememberedFor'
    faults.push(fault('recovery', reason))
  }
  return faults
}

function marginCoversACall({ idempotency, submit }: CareDefinition): Fault[] {
  if (typeof idempotency?.rememberedForMs !== 'number') return []
  const { marginMs, arrivalMs } = idempotency
  const least = submit.timeoutMs + arrivalMs
  if (marginMs >= least) return []
  const sum = `timeoutMs (${submit.timeoutMs}) plus arrivalMs (${arrivalMs})`
  return [fault('idempotency.margin', `${marginMs} ms is too short: at least ${least}, which is ${sum}`)]
}

/** A retry must not outlive the memory of the first call's key: it would be a second effect. */
function retriesFitTheWindow({ idempotency, submit, retry }: CareDefinition): Fault[] {
  if (typeof idempotency?.rememberedForMs !== 'number') return []
  const horizonMs = retryHorizonMs(retry, submit.timeoutMs)
  const windowMs = idempotency.rememberedForMs - idempotency.marginMs
  if (horizonMs <= windowMs) return []
  const horizon = `${retry.maxAttempts} attempts with their backoffs can last ${formatDuration(horizonMs)}`
  const window = `idempotency.rememberedFor less margin is ${formatDuration(Math.max(0, windowMs))}`
  return [fault('retry', `${horizon}, and ${window}; lower maxAttempts, maxMs or timeoutMs`)]
}

function keyIsWide({ idempotency }: CareDefinition): Fault[] {
  if (idempotency === null) return []
  const { kind, length } = idempotency.format
  if (kind !== 'hex') {
    return length === 36 ? [] : [fault('idempotency.format.length', `is for hex only: a ${kind} key has 36 characters`)]
  }
  const bits = length * BITS_PER_HEX_DIGIT
  if (bits >= LEAST_KEY_BITS) return []
  const least = LEAST_KEY_BITS / BITS_PER_HEX_DIGIT
  const reason = `${length} hex characters are ${bits} bits: two requests could share a key; at least ${least}`
  return [fault('idempotency.format.length', reason)]
}

function lookupFindsItsRequest(target: TargetDefinition): Fault[] {
  if (target.lookup === null) return []
  const request = variablesOf(templatesOf(target).filter(({ call, part }) => call === 'lookup' && part !== 'answer'))
  // A list without a filter will do where each of its items shows the key.
  if (!lookupDependsOnKey(target) && !request.has('payload')) {
    const way = 'it would find any request; ask by one of them, or pick by $key in lookup.taskId'
    return [fault('lookup.url', `depends on neither $key nor $payload: ${way}`)]
  }
  // Under `live` and `none` equal payloads are requests of their own, which only the key tells apart.
  if (target.dedupe === 'always' || lookupDependsOnKey(target)) return []
  return [fault('dedupe', `${target.dedupe} needs a lookup that depends on $key: equal payloads would find each other`)]
}

/** Later than the API remembers, a job that ran and one that never was look alike. */
function missesAreWorthSomething({ lookup }: CareDefinition): Fault[] {
  if (lookup === null || lookup.missMeans !== 'absent' || lookup.remembersMs !== null) return []
  return [fault('lookup.missMeans', 'absent needs lookup.remembers: how long the API shows a submission, or forever')]
}

function fault(path: string, message: string): Fault {
  return { path, message }
}
