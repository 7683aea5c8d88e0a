// What may hold calls back, judged from outside: by what the API said, what a person said, and when calls were claimed and left.
import type { AttemptResult } from '../../src/core/settlement.ts'
import type { ClaimedCall, SettledRow, TurnInput, TurnResult } from '../../src/store/turn.ts'
import type { Kind } from './api-model.ts'
import { watchBreakers } from './breaker-watch.ts'
import { createForwardTime } from './forward-time.ts'
import { watchRates } from './rate-watch.ts'
import { type Regime, scopesOf, waitScopeOf } from './regimes.ts'
import type { Schedule } from './schedule.ts'
import type { StoreWatch } from './store-watch.ts'
import { MAX_ATTEMPTS } from './targets.ts'
import { watchWaits } from './wait-watch.ts'

export interface LimitsWatch {
  /** Call when a turn begins. */
  beginTurn(): TurnBegun
  /** Call right before the commit of a turn, and what it gives after it. @returns what is wrong. */
  watchTurn(input: TurnInput, begun: TurnBegun): (result: TurnResult) => readonly string[]
  /** Nobody may hear what a turn came to: what calls have cost is not known from here on. */
  missTurn(): void
  /** At the first byte of a call. @returns what is wrong. */
  onWrite(requestId: number): readonly string[]
  /** A person's words. */
  onPause(kind: Kind): void
  onResume(kind: Kind): void
  /** The file is another: it was emptied, or put back as it was some time ago. */
  onOtherStore(how: 'lost' | 'put back'): void
}

interface TurnBegun {
  /** Whose calls somebody had stopped: who is stopped while the turn runs, it need not know of. */
  readonly stopped: ReadonlySet<Kind>
  /** In forward time. */
  readonly at: number
}

/** Of an answer, before the turn that settles it. */
interface Answer {
  readonly result: AttemptResult
  /** No later attempt is out. */
  readonly isNewest: boolean
  /** How long it tells to wait from here on. */
  readonly leftMs: number
}

export function watchLimits(regime: Regime, schedule: Schedule, watch: StoreWatch): LimitsWatch {
  const time = createForwardTime(schedule)
  const breakers = watchBreakers((kind) => regime.care[kind], time)
  const waits = watchWaits(regime, time)
  const rates = watchRates(regime)
  /** Stopped by a person, or by an answer that refused the credentials. */
  const stopped = new Set<Kind>()
  const claims = new Map<number, { readonly kind: Kind; readonly at: number }>()
  /** Calls of each request that were claimed, less those that cost nothing. */
  const burned = new Map<number, number>()
  let hasMissed = false

  function burn(requestId: number, calls: number): void {
    burned.set(requestId, (burned.get(requestId) ?? 0) + calls)
  }

  function answerOf(result: AttemptResult, now: number): Answer {
    const { outcome, endedAt, requestId, attempt, nonce } = result
    const fence = watch.fenceOf(requestId)
    const isTold = outcome.kind === 'not_executed' && outcome.limitedBy !== undefined
    const toldMs = isTold ? (outcome.retryAfterMs ?? 0) : 0
    const leftMs = toldMs === 0 ? 0 : Math.min(endedAt, now) + toldMs - now
    return { result, leftMs, isNewest: fence?.attempt === attempt && fence.nonce === nonce }
  }

  function hear({ result, isNewest, leftMs }: Answer, settled: SettledRow | undefined): void {
    if (settled?.applied !== true) return
    const { requestId, outcome } = result
    const kind = result.target as Kind
    if (settled.state !== 'invoking') breakers.onEnd(kind, result)
    if (leftMs > 0) waits.onTold(kind, leftMs)
    if (!isNewest) return
    if (outcome.kind === 'blocked') stopped.add(kind)
    if (outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && outcome.refund)) burn(requestId, -1)
  }

  function judgeEnd({ requestId, state, reason }: SettledRow): readonly string[] {
    const calls = hasMissed ? MAX_ATTEMPTS : (burned.get(requestId) ?? 0)
    return state === 'dead' && reason === 'attempts_spent' && calls < MAX_ATTEMPTS
      ? [`request ${requestId} is dead after ${calls} calls that cost an attempt, and has ${MAX_ATTEMPTS}`]
      : []
  }

  function judgeClaim(
    { requestId, target }: ClaimedCall,
    leaseMs: number,
    { stopped: wasStopped, at }: TurnBegun,
  ): readonly string[] {
    const kind = target as Kind
    claims.set(requestId, { kind, at })
    burn(requestId, 1)
    return [
      ...(stopped.has(kind) && wasStopped.has(kind) ? [`request ${requestId} is called, and ${kind} is paused`] : []),
      ...waits.onClaim(kind, requestId),
      ...breakers.onClaim(kind, requestId, leaseMs),
    ]
  }

  /** Whoever reads an answer late waits no longer for it. */
  function judgeWaits(answers: readonly Answer[], now: number): () => readonly string[] {
    const told = answers.filter(({ result }) => 'limitedBy' in result.outcome)
    const scopes = new Map(told.map(({ result }) => [waitScopeOf(regime, result.target as Kind), 0]))
    for (const scope of scopes.keys()) scopes.set(scope, watch.toldUntil(scope.kind, scope.name))
    return () =>
      [...scopes].flatMap(([scope, before]) => {
        const longest = Math.max(0, ...told.map(({ leftMs }) => Math.ceil(leftMs * 1.1)))
        const tooLongMs = watch.toldUntil(scope.kind, scope.name) - Math.max(before, now + longest)
        return tooLongMs > 0 ? [`${scope.kind} ${scope.name} waits ${tooLongMs} ms longer than it was told`] : []
      })
  }

  function judgeConcurrency(calls: readonly ClaimedCall[]): readonly string[] {
    const scopes = new Set(calls.map(({ target }) => target as Kind))
    return [...scopes].flatMap((kind) =>
      scopesOf(regime, kind).flatMap(({ kind: scope, name, limit, members }) => {
        const most = limit.concurrency ?? Number.POSITIVE_INFINITY
        const running = most === Number.POSITIVE_INFINITY ? 0 : watch.invoking(members)
        return running > most ? [`${running} calls of ${scope} ${name} run at once, allowed ${most}`] : []
      }),
    )
  }

  return {
    beginTurn: () => ({ stopped: new Set(stopped), at: time.now() }),
    watchTurn: (input, begun) => {
      const blocked = input.results.filter(({ outcome }) => outcome.kind === 'blocked')
      const known = { ...begun, stopped: new Set([...begun.stopped, ...blocked.map(({ target }) => target as Kind)]) }
      const now = input.now()
      time.now()
      const answers = input.results.map((result) => answerOf(result, now))
      const waitsAfter = judgeWaits(answers, now)
      return ({ settled, calls }) => {
        for (const [i, answer] of answers.entries()) hear(answer, settled[i])
        return [
          ...settled.flatMap(judgeEnd),
          ...waitsAfter(),
          ...calls.flatMap((call) => judgeClaim(call, input.leaseMs, known)),
          ...judgeConcurrency(calls),
        ]
      }
    },
    missTurn: () => {
      hasMissed = true
    },
    onWrite: (requestId) => {
      const claim = claims.get(requestId)
      if (claim === undefined) return []
      claims.delete(requestId)
      return [...rates.onWrite(claim.kind, claim.at), ...waits.onWrite(requestId)]
    },
    onPause: (kind) => void stopped.add(kind),
    onResume: (kind) => {
      stopped.delete(kind)
      waits.onResume(kind)
      breakers.onResume(kind)
    },
    onOtherStore: (how) => {
      claims.clear()
      waits.forget()
      rates.forget()
      breakers.forget()
      stopped.clear()
      for (const kind of watch.pausedTargets()) stopped.add(kind as Kind)
      // What the copy has counted was counted here before.
      if (how === 'lost') burned.clear()
    },
  }
}
