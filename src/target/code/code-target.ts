// A target whose calls are the user's own code. Each call gets a deadline of its own that ends before the lease; what comes
// back, or is thrown, becomes an outcome in answer.ts.
import { createHash } from 'node:crypto'
import type { Inquiry } from '../../config/code-target.ts'
import type { CodeTargetDefinition } from '../../config/code-target-schema.ts'
import { deriveKey } from '../../core/idempotency-key.ts'
import type { CancelResult, LookupResult, Outcome, TaskStatus } from '../../core/outcome.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import { NotExecutedError } from '../../core/submission-errors.ts'
import { createRedactor } from '../redact.ts'
import type { InvokeOptions, LookupInput, PrepareInput, StatusInput, Target } from '../target.ts'
import { type Answers, createAnswers } from './answer.ts'
import { createDeadline, type Deadline } from './deadline.ts'

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
  readonly #answers: Answers

  constructor(definition: CodeTargetDefinition) {
    const { name, version, policy, secrets, givesTaskId } = definition
    this.name = name
    this.version = version
    this.policy = policy
    this.summary = `code, version ${version}`
    this.#definition = definition
    this.#answers = createAnswers(createRedactor(secrets), { givesTaskId })
  }

  keyFor(input: { namespace: string; logicalHash: string; generation: number }): string | null {
    const { keyFormat } = this.#definition
    return keyFormat === null ? null : deriveKey({ ...input, target: this.name }, keyFormat)
  }

  prepare({ payload, key }: PrepareInput): PreparedCall {
    const url = `code:${this.name}`
    const fingerprint = createHash('sha256')
      .update(JSON.stringify([url, key, payload]))
      .digest('hex')
    return { method: 'CALL', url, headers: {}, body: payload, fingerprint, account: this.#definition.care.account }
  }

  async invoke(_prepared: PreparedCall, { input, gate, onWritten, onLate, signal }: InvokeOptions): Promise<Outcome> {
    const refused = gate()
    if (refused !== null) return this.#answers.unsent(refused)
    onWritten?.()
    const deadline = createDeadline(this.policy.timeoutMs, signal)
    const ensureLease = () => {
      const why = deadline.signal.aborted ? 'the deadline is over' : gate()
      if (why !== null) throw new NotExecutedError(`not sent: ${why}`, { sent: false })
    }
    const call = { ...asked(input), signal: deadline.signal, ensureLease }
    const answered = settle(() => this.#definition.calls.invoke(call)).then(
      (value) => this.#answers.returned(value),
      (error: unknown) => this.#answers.thrown(error),
    )
    const outcome = await Promise.race([answered, deadline.over.then(() => null)])
    deadline.clear()
    if (outcome !== null) return outcome
    // The code still runs: what it comes to is a late answer, and is kept as one.
    if (onLate !== undefined) void answered.then(onLate)
    return { ...this.#answers.unanswered(deadline.reason()), isRunning: true }
  }

  async lookup(input: LookupInput, signal?: AbortSignal): Promise<LookupResult> {
    const { lookup } = this.#definition.calls
    if (lookup === undefined) return this.#answers.undetermined('the target has no lookup')
    const made = await this.#ask(signal, (deadline) => lookup({ ...asked(input), ...askedOf(input, deadline) }))
    return 'error' in made ? this.#answers.undetermined(made.error) : this.#answers.lookedUp(made.value)
  }

  async cancel(input: LookupInput & { taskId: string }, signal?: AbortSignal): Promise<CancelResult> {
    const { cancel } = this.#definition.calls
    if (cancel === undefined) return { kind: 'failed', evidence: this.#answers.evidence('the target has no cancel') }
    const { taskId } = input
    const made = await this.#ask(signal, (deadline) => cancel({ ...asked(input), signal: deadline.signal, taskId }))
    if ('error' in made) return { kind: 'failed', evidence: this.#answers.evidence(made.error) }
    return { kind: 'canceled', evidence: { phase: 'answered', rule: 'cancel' } }
  }

  async status(input: StatusInput, signal?: AbortSignal): Promise<TaskStatus> {
    const { status } = this.#definition.calls
    if (status === undefined) return this.#answers.undetermined('the target has no status')
    const { payload: _gone, ...question } = asked({ ...input, payload: 'null' })
    const made = await this.#ask(signal, (deadline) => status({ ...question, ...askedOf(input, deadline) }))
    return 'error' in made ? this.#answers.undetermined(made.error) : this.#answers.statusOf(made.value)
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
      return { value: await Promise.race([settle(() => question(deadline)), overdue]) }
    } catch (error) {
      return { error }
    } finally {
      deadline.clear()
    }
  }
}

/** What it throws at once is a rejection like any other. */
async function settle<T>(work: () => Promise<T> | T): Promise<T> {
  return await work()
}

function asked({ payload, key, request }: PrepareInput) {
  return { payload: JSON.parse(payload) as unknown, key, ...request }
}

function askedOf(
  input: { readonly taskId: string | null },
  { signal }: Deadline,
): Pick<Inquiry<never>, 'signal' | 'taskId'> {
  return { signal, taskId: input.taskId }
}
