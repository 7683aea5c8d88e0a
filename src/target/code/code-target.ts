// A target whose calls are the user's own code. Each call gets a deadline of its own that ends before the lease; what comes
// back, or is thrown, becomes an outcome in readings.ts.
import { createHash } from 'node:crypto'
import type { CodeTargetDefinition } from '../../config/code-target-schema.ts'
import { policyWith } from '../../config/policy.ts'
import { deriveKey } from '../../core/idempotency-key.ts'
import type { CancelResult, LookupResult, Outcome, TaskStatus } from '../../core/outcome.ts'
import type { TargetPolicy } from '../../core/policy.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import { NotExecutedError } from '../../core/submission-errors.ts'
import { createRedactor } from '../redact.ts'
import type { AbortLike, InvokeOptions, LookupInput, PrepareInput, StatusInput, Target } from '../target.ts'
import { createDeadline, type Deadline } from './deadline.ts'
import { createReadings, type Readings } from './readings.ts'

/** Nothing is called or opened. */
export function createCodeTarget(definition: CodeTargetDefinition): Target {
  return new InCodeTarget(definition)
}

/** What can be stored of a target in code: which version, and how careful to be with its calls. */
interface StoredCode extends Pick<CodeTargetDefinition, 'name' | 'version' | 'care' | 'givesTaskId'> {
  /** What its care does not say. Some that were stored before hold more. */
  readonly policy: Pick<TargetPolicy, 'lookup' | 'canCancel' | 'tracking'>
}

/** The code that is loaded, under the policy that its attempt was made with; null where another version is loaded. */
export function recallCodeTarget(present: CodeTargetDefinition, description: string): Target | null {
  const { kind, policy: able, ...stored } = JSON.parse(description) as StoredCode & { readonly kind: unknown }
  if (kind !== 'code' || stored.name !== present.name || stored.version !== present.version) return null
  const { lookup, canCancel, tracking } = able
  const policy = policyWith(stored.care, { dependsOnKey: lookup?.dependsOnKey === true, canCancel, tracking })
  return createCodeTarget({ ...present, ...stored, policy })
}

class InCodeTarget implements Target {
  readonly name: string
  readonly version: string
  /** Code cannot be stored, its policy can: doubt is settled only where this version is loaded, and by the stricter policy. */
  readonly description: string
  readonly policy: Target['policy']
  readonly summary: string
  readonly #definition: CodeTargetDefinition
  readonly #read: Readings
  readonly #running: Map<number, number>

  constructor(definition: CodeTargetDefinition) {
    const { name, version, care, policy, givesTaskId, secrets } = definition
    this.name = name
    const { lookup, canCancel, tracking } = policy
    const stored: StoredCode = { name, version, care, policy: { lookup, canCancel, tracking }, givesTaskId }
    this.description = JSON.stringify({ kind: 'code', ...stored })
    this.version = `${version}-${createHash('sha256').update(this.description).digest('hex').slice(0, 8)}`
    this.policy = policy
    this.summary = `code, version ${version}`
    this.#definition = definition
    this.#running = runningOf(definition.calls)
    this.#read = createReadings(createRedactor(secrets), definition)
  }

  keyFor({ namespace, logicalHash, generation }: Parameters<Target['keyFor']>[0]): string | null {
    const { idempotency } = this.#definition.care
    if (idempotency === null) return null
    return deriveKey({ namespace, target: this.name, logicalHash, generation }, idempotency.format)
  }

  prepare({ payload }: PrepareInput): PreparedCall {
    const { account } = this.#definition.care
    return { method: 'code', url: `code:${this.name}`, headers: {}, body: payload, account }
  }

  async invoke(_prepared: PreparedCall, { input, gate, onWritten, onLate, signal }: InvokeOptions): Promise<Outcome> {
    const refused = gate()
    if (refused !== null) return this.#read.unsent(refused)
    onWritten?.()
    const deadline = createDeadline(this.policy.timeoutMs, signal)
    const ensureLease = () => {
      const why = deadline.signal.aborted ? deadline.reason() : gate(deadline.leftMs())
      if (why !== null) throw new NotExecutedError(`not sent: ${why}`, { sent: false })
    }
    const end = this.#begin(input.request.requestId)
    const answered = started(() =>
      this.#definition.calls.invoke({ ...asked(input), signal: deadline.signal, ensureLease }),
    )
      .then(
        (value) => this.#read.returned(value, input.key),
        (error: unknown) => this.#read.thrown(error),
      )
      .finally(end)
    const outcome = await Promise.race([answered, deadline.over.then(() => null)])
    deadline.clear()
    if (outcome === null) {
      // The code still runs: what it comes to is a late answer, and is kept as one.
      if (onLate !== undefined) void answered.then(onLate)
      return { ...this.#read.unanswered(deadline.reason()), isRunning: true }
    }
    // Code that gives up when it is told to may leave behind what it began: nobody saw the end of that.
    return outcome.kind === 'unknown' && deadline.signal.aborted ? { ...outcome, isRunning: true } : outcome
  }

  isRunning(requestId: number): boolean {
    return this.#running.has(requestId)
  }

  /** @returns to be called at its end. */
  #begin(requestId: number): () => void {
    this.#running.set(requestId, (this.#running.get(requestId) ?? 0) + 1)
    return () => {
      const others = (this.#running.get(requestId) ?? 1) - 1
      if (others === 0) this.#running.delete(requestId)
      else this.#running.set(requestId, others)
    }
  }

  async lookup(input: LookupInput, signal?: AbortLike): Promise<LookupResult> {
    const { lookup } = this.#definition.calls
    if (lookup === undefined) return this.#read.undetermined('the target has no lookup')
    const made = await this.#ask(signal, async (deadline) =>
      this.#read.lookedUp(await lookup({ ...asked(input), signal: deadline.signal, taskId: input.taskId })),
    )
    return 'error' in made ? this.#read.undetermined(made.error) : made.value
  }

  async cancel(input: LookupInput & { taskId: string }, signal?: AbortLike): Promise<CancelResult> {
    const { cancel } = this.#definition.calls
    if (cancel === undefined) return { kind: 'failed', evidence: this.#read.evidence('the target has no cancel') }
    const { taskId } = input
    const made = await this.#ask(signal, (deadline) => cancel({ ...asked(input), signal: deadline.signal, taskId }))
    if ('error' in made) return { kind: 'failed', evidence: this.#read.evidence(made.error) }
    return { kind: 'canceled', evidence: { phase: 'answered', rule: 'cancel' } }
  }

  async status(input: StatusInput, signal?: AbortLike): Promise<TaskStatus> {
    const { status } = this.#definition.calls
    if (status === undefined) return this.#read.undetermined('the target has no status')
    const { taskId } = input
    const made = await this.#ask(signal, async (deadline) =>
      this.#read.statusOf(await status({ ...factsOf(input), signal: deadline.signal, taskId })),
    )
    return 'error' in made ? this.#read.undetermined(made.error) : made.value
  }

  sameOrigin(prepared: PreparedCall): boolean {
    return prepared.account === this.#definition.care.account
  }

  async close(): Promise<void> {}

  async #ask<T>(
    signal: AbortLike | undefined,
    question: (deadline: Deadline) => Promise<T> | T,
  ): Promise<{ readonly value: T } | { readonly error: unknown }> {
    const deadline = createDeadline(this.policy.timeoutMs, signal)
    try {
      const overdue = deadline.over.then((): never => {
        throw new Error(deadline.reason())
      })
      return { value: await Promise.race([started(() => question(deadline)), overdue]) }
    } catch (error) {
      return { error }
    } finally {
      deadline.clear()
    }
  }
}

/** Calls that have not come to an end in this process, by request, for whatever policy the same code is recalled with. */
const running = new WeakMap<object, Map<number, number>>()

function runningOf(calls: object): Map<number, number> {
  const known = running.get(calls) ?? new Map<number, number>()
  running.set(calls, known)
  return known
}

/** What it throws at once is a rejection like any other. */
async function started<T>(work: () => Promise<T> | T): Promise<T> {
  return await work()
}

function asked(input: PrepareInput) {
  return { payload: JSON.parse(input.payload) as unknown, ...factsOf(input) }
}

function factsOf({ key, request }: Omit<PrepareInput, 'payload'>) {
  return { key, ...request }
}
