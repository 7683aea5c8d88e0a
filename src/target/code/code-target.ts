// A target whose calls are the user's own code. Each call gets a deadline of its own that ends before the lease; what comes
// back, or is thrown, becomes an outcome in readings.ts.
import { createHash } from 'node:crypto'
import type { CodeTargetDefinition } from '../../config/code-target-schema.ts'
import { deriveKey } from '../../core/idempotency-key.ts'
import type { CancelResult, LookupResult, Outcome, TaskStatus } from '../../core/outcome.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import { NotExecutedError } from '../../core/submission-errors.ts'
import { createRedactor } from '../redact.ts'
import type { InvokeOptions, LookupInput, PrepareInput, StatusInput, Target } from '../target.ts'
import { createDeadline, type Deadline } from './deadline.ts'
import { createReadings, type Readings } from './readings.ts'

/** Nothing is called or opened. */
export function createCodeTarget(definition: CodeTargetDefinition): Target {
  return new InCodeTarget(definition)
}

class InCodeTarget implements Target {
  readonly name: string
  readonly version: string
  /** Code cannot be stored: doubt is settled only where this version is loaded. */
  readonly description = null
  readonly policy: Target['policy']
  readonly summary: string
  readonly #definition: CodeTargetDefinition
  readonly #read: Readings

  constructor(definition: CodeTargetDefinition) {
    const { name, version, policy, secrets } = definition
    this.name = name
    this.version = version
    this.policy = policy
    this.summary = `code, version ${version}`
    this.#definition = definition
    this.#read = createReadings(createRedactor(secrets), definition)
  }

  keyFor(input: { namespace: string; logicalHash: string; generation: number }): string | null {
    const { idempotency } = this.#definition.care
    return idempotency === null ? null : deriveKey({ ...input, target: this.name }, idempotency.format)
  }

  prepare({ payload, key }: PrepareInput): PreparedCall {
    const url = `code:${this.name}`
    const fingerprint = createHash('sha256')
      .update(JSON.stringify([url, key, payload]))
      .digest('hex')
    return { method: 'code', url, headers: {}, body: payload, fingerprint, account: this.#definition.care.account }
  }

  async invoke(_prepared: PreparedCall, { input, gate, onWritten, onLate, signal }: InvokeOptions): Promise<Outcome> {
    const refused = gate()
    if (refused !== null) return this.#read.unsent(refused)
    onWritten?.()
    const deadline = createDeadline(this.policy.timeoutMs, signal)
    const ensureLease = () => {
      const why = deadline.signal.aborted ? 'the deadline is over' : gate()
      if (why !== null) throw new NotExecutedError(`not sent: ${why}`, { sent: false })
    }
    const call = { ...asked(input), signal: deadline.signal, ensureLease }
    const answered = started(() => this.#definition.calls.invoke(call)).then(
      (value) => this.#read.returned(value, input.key),
      (error: unknown) => this.#read.thrown(error),
    )
    const outcome = await Promise.race([answered, deadline.over.then(() => null)])
    deadline.clear()
    if (outcome !== null) return outcome
    // The code still runs: what it comes to is a late answer, and is kept as one.
    if (onLate !== undefined) void answered.then(onLate)
    return { ...this.#read.unanswered(deadline.reason()), isRunning: true }
  }

  async lookup(input: LookupInput, signal?: AbortSignal): Promise<LookupResult> {
    const { lookup } = this.#definition.calls
    if (lookup === undefined) return this.#read.undetermined('the target has no lookup')
    const made = await this.#ask(signal, (deadline) =>
      lookup({ ...asked(input), signal: deadline.signal, taskId: input.taskId }),
    )
    return 'error' in made ? this.#read.undetermined(made.error) : this.#read.lookedUp(made.value)
  }

  async cancel(input: LookupInput & { taskId: string }, signal?: AbortSignal): Promise<CancelResult> {
    const { cancel } = this.#definition.calls
    if (cancel === undefined) return { kind: 'failed', evidence: this.#read.evidence('the target has no cancel') }
    const { taskId } = input
    const made = await this.#ask(signal, (deadline) => cancel({ ...asked(input), signal: deadline.signal, taskId }))
    if ('error' in made) return { kind: 'failed', evidence: this.#read.evidence(made.error) }
    return { kind: 'canceled', evidence: { phase: 'answered', rule: 'cancel' } }
  }

  async status(input: StatusInput, signal?: AbortSignal): Promise<TaskStatus> {
    const { status } = this.#definition.calls
    if (status === undefined) return this.#read.undetermined('the target has no status')
    const { taskId } = input
    const made = await this.#ask(signal, (deadline) => status({ ...factsOf(input), signal: deadline.signal, taskId }))
    return 'error' in made ? this.#read.undetermined(made.error) : this.#read.statusOf(made.value)
  }

  sameOrigin(prepared: PreparedCall): boolean {
    return prepared.account === this.#definition.care.account
  }

  async close(): Promise<void> {}

  async #ask<T>(
    signal: AbortSignal | undefined,
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
