// One request, or many in one call: checked first, then written in transactions of a bounded size (batch.ts).
import { OnceishError } from '../core/errors.ts'
import type { RequestState } from '../core/task-state.ts'
import {
  type CallerClient,
  type CallerConnection,
  type EnqueueResult,
  isCallerClient,
  isRefused,
  type NewRequest,
  type Store,
} from '../store/store.ts'
import { batchesOf } from './batch.ts'
import { type EnqueueRequest, type RequestRules, refusalError, toNewRequest } from './new-request.ts'

/** A request as it is on disk once it was acknowledged. */
export interface Enqueued {
  readonly requestId: number
  /** The same request was there already: nothing was added. */
  readonly deduplicated: boolean
  readonly state: RequestState
  /** Of a deduplicated request that was submitted already; else null. */
  readonly taskId: string | null
}

/**
 * @throws OnceishError LOGICAL_HASH_CONFLICT when the hash belongs to a request with another payload, REQUEST_INVALID where its
 * deadline is over before it is due; see `toNewRequest`.
 */
export async function enqueue(store: Store, request: EnqueueRequest, rules: RequestRules): Promise<Enqueued> {
  // Read at the call: what the caller does with its object afterwards is no part of the request.
  const made = toNewRequest(request, rules)
  const [result] = await store.enqueue([made instanceof Promise ? await made : made], rules.now())
  return toEnqueued(result as EnqueueResult)
}

/**
 * Inside the caller's own transaction: it is there once the caller has committed.
 * @throws OnceishError CONNECTION_UNFIT, and as `enqueue`
 */
export function enqueueIn(
  store: Store,
  connection: CallerConnection | CallerClient,
  request: EnqueueRequest,
  rules: RequestRules,
): Enqueued | Promise<Enqueued> {
  if (isCallerClient(connection)) return enqueueInClient(store, connection, request, rules)
  const checked = toNewRequest(request, rules)
  if (!(checked instanceof Promise))
    return toEnqueued(store.enqueueIn(connection, checked, rules.now()) as EnqueueResult)
  checked.catch(() => {}) // its verdict comes too late for a transaction that cannot wait
  throw new OnceishError(
    'REQUEST_INVALID',
    `the schema of target "${request.target}" takes time, and a transaction cannot wait: check the payload before it`,
  )
}

/** Whoever may wait is told by a promise, also of what is wrong; and a schema may take its time. */
async function enqueueInClient(
  store: Store,
  client: CallerClient,
  request: EnqueueRequest,
  rules: RequestRules,
): Promise<Enqueued> {
  const made = toNewRequest(request, rules)
  return toEnqueued(await store.enqueueIn(client, made instanceof Promise ? await made : made, rules.now()))
}

/**
 * What each says by itself is checked before any is written; each transaction is whole.
 * @throws OnceishError as `enqueue`; at a refusal by the store the transactions before stay, the refused one's is not written.
 */
export async function enqueueMany(
  store: Store,
  requests: readonly EnqueueRequest[],
  rules: RequestRules,
): Promise<readonly Enqueued[]> {
  const checked = await allChecked(requests, rules)
  const done: Enqueued[] = []
  for (const batch of batchesOf(checked)) {
    for (const result of await store.enqueue(batch, rules.now(), { stopAtRefusal: true })) done.push(toEnqueued(result))
  }
  return done
}

/** All are read at the call, and none is written where one is refused. Promises only where a schema takes time. */
async function allChecked(requests: readonly EnqueueRequest[], rules: RequestRules): Promise<readonly NewRequest[]> {
  const made: (NewRequest | Promise<NewRequest>)[] = []
  try {
    for (const request of requests) made.push(toNewRequest(request, rules))
  } catch (error) {
    void Promise.allSettled(made) // what else is wrong does not matter any more
    throw error
  }
  return made.some((one) => one instanceof Promise) ? Promise.all(made) : (made as NewRequest[])
}

function toEnqueued(result: EnqueueResult): Enqueued {
  if (isRefused(result)) throw refusalError(result)
  const { requestId, state } = result
  return result.kind === 'inserted'
    ? { requestId, deduplicated: false, state, taskId: null }
    : { requestId, deduplicated: true, state, taskId: result.taskId }
}
