// Who holds what: an answer of an older attempt takes no running call from its holder, a renewal reaches nobody else's lease,
// and bytes leave only under a lease that covers the whole call.
import type { TurnInput, TurnResult } from '../../src/store/turn.ts'
import { TIMES } from './api-model.ts'
import type { StoreWatch } from './store-watch.ts'

const HAPPENED: readonly string[] = ['accepted', 'exists', 'accepted_without_id']

/** Call before a turn, and what it gives after it. @returns what is wrong. */
export function watchTurn(watch: StoreWatch, input: TurnInput): (result: TurnResult) => readonly string[] {
  const answered = new Set(input.results.map(({ requestId, attempt }) => `${requestId}:${attempt}`))
  // What is known to have happened settles the request, whoever calls for it.
  const happened = new Set(
    input.results.flatMap(({ requestId, outcome }) => (HAPPENED.includes(outcome.kind) ? [requestId] : [])),
  )
  const threatened = input.results.flatMap(({ requestId, attempt }) => {
    const fence = watch.fenceOf(requestId)
    const isRunning = fence?.state === 'invoking' && fence.attempt > attempt && fence.leaseUntil > input.now()
    return isRunning && !happened.has(requestId) && !answered.has(`${requestId}:${fence.attempt}`)
      ? [{ requestId, attempt, fence }]
      : []
  })
  return ({ lost }) => [
    ...threatened.flatMap(({ requestId, attempt, fence }) =>
      watch.fenceOf(requestId)?.state === 'invoking'
        ? []
        : [`the answer of attempt ${attempt} ended the running attempt ${fence.attempt} of request ${requestId}`],
    ),
    ...input.renewals.flatMap(({ requestId, attempt, nonce }) => {
      const isLost = lost.some((gone) => gone.requestId === requestId && gone.attempt === attempt)
      const isIts = watch.fenceOf(requestId)?.nonce === nonce
      return isLost || isIts ? [] : [`attempt ${attempt} of request ${requestId} renewed a lease that is another's`]
    }),
  ]
}

/** At the first byte of a call that begins something: a replay only settles what began before. @returns what is wrong. */
export function watchDeadline(watch: StoreWatch, requestId: number, wallNow: number): readonly string[] {
  const deadline = watch.deadlineOf(requestId)
  if (deadline === null || deadline.isReplayed || wallNow <= deadline.expiresAt) return []
  return [`bytes of request ${requestId} left ${wallNow - deadline.expiresAt} ms after its deadline`]
}

/** At the first byte. @returns what is wrong. */
export function watchWrite(watch: StoreWatch, requestId: number, wallNow: number): readonly string[] {
  const fence = watch.fenceOf(requestId)
  // A late answer under the same key can settle a request while its replay is dialled: that replay makes nothing.
  if (fence === null || fence.taskId !== null) return []
  const isCovered = fence.state === 'invoking' && fence.leaseUntil - wallNow >= TIMES.timeoutMs
  return isCovered ? [] : [`bytes of request ${requestId} left without a lease that covers the call`]
}
