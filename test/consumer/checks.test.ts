import { expect, test } from 'vitest'
import { createChecks } from '../../src/consumer/checks.ts'
import { systemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/log.ts'
import { NO_POLICY } from '../../src/core/policy.ts'
import type { Reconciliation, ReconciliationVerdict } from '../../src/core/reconciliation.ts'
import type { SettledRow } from '../../src/store/turn.ts'
import type { AbortLike } from '../../src/target/target.ts'

const HELD: ReconciliationVerdict = { kind: 'hold', reason: 'x', evidence: null }
const REPLAY: ReconciliationVerdict = { kind: 'replay', reason: 'x' }

/** Checks whose questions end when the test says so. */
function openChecks(limit: number) {
  let now = 0
  let news = 0
  const asked: { requestId: number; signal: AbortLike; say(verdict: ReconciliationVerdict): Promise<void> }[] = []
  const clock = { ...systemClock, monotonicNow: () => now }
  const onNews = () => {
    news++
  }
  const checks = createChecks({ clock, log: SILENT, limit: () => limit, leaseMs: 1000, onNews })
  return {
    checks,
    asked,
    news: () => news,
    pass: (ms: number) => {
      now += ms
    },
    ask: (requestId: number, target = 'a') =>
      checks.reconcile(
        target,
        (signal) =>
          new Promise((resolve) => {
            const say = async (verdict: ReconciliationVerdict) => {
              resolve({ requestId, target, version: 1, policy: NO_POLICY, verdict })
              await new Promise((done) => setImmediate(done))
            }
            asked.push({ requestId, signal, say })
          }),
      ),
  }
}

const idsOf = (verdicts: readonly Reconciliation[]) => verdicts.map(({ requestId }) => requestId)

function rowOf({ requestId, target }: Reconciliation, reason: string | null): SettledRow {
  return { requestId, target, attempt: 1, outcome: 'x', state: 'held', reason, applied: reason === null }
}

test('questions beyond the limit stand in line, and the next begins when one ends', async () => {
  const { checks, asked, ask } = openChecks(2)
  for (const requestId of [1, 2, 3, 4]) ask(requestId, requestId === 4 ? 'b' : 'a')
  expect(asked.map(({ requestId }) => requestId)).toEqual([1, 2])
  expect([checks.size, checks.openTo('a'), checks.openTo('b')]).toEqual([4, 3, 1])
  await asked[1]?.say(HELD)
  expect(asked.map(({ requestId }) => requestId)).toEqual([1, 2, 3])
  expect([checks.size, checks.openTo('a')]).toEqual([4, 2])
})

test('a question whose lease ran out in line is not asked: its row is due again, maybe for another worker', async () => {
  const { checks, asked, ask, news, pass } = openChecks(1)
  for (const requestId of [1, 2]) ask(requestId)
  pass(500)
  ask(3)
  pass(500)
  await asked[0]?.say(HELD)
  expect(asked.map(({ requestId }) => requestId)).toEqual([1, 3])
  pass(1000)
  ask(4)
  pass(1000)
  await asked[1]?.say(HELD)
  expect(asked).toHaveLength(2)
  expect([checks.size, checks.hasNews(1), news()]).toEqual([2, true, 2])
})

test('what was found waits for more while a line stands, but not for long', async () => {
  const { checks, asked, ask, news, pass } = openChecks(1)
  for (const requestId of [1, 2, 3]) ask(requestId)
  await asked[0]?.say(HELD)
  expect([checks.hasNews(1), news()]).toEqual([false, 0])
  pass(100)
  expect(checks.hasNews(1)).toBe(true)
  const findings = checks.findings(1)
  expect(idsOf(findings.reconciliations)).toEqual([1])
  await asked[1]?.say(HELD)
  expect(news()).toBe(1)
  checks.recorded(
    findings,
    findings.reconciliations.map((verdict) => rowOf(verdict, null)),
  )
  expect(checks.hasNews(1)).toBe(true)
  expect(idsOf(checks.findings(1).reconciliations)).toEqual([2])
})

test('a verdict that a limit turned away is offered once, however often its row is looked into again', async () => {
  const { checks, asked, ask } = openChecks(1)
  for (const i of [0, 1, 2]) {
    ask(1)
    await asked[i]?.say(REPLAY)
    const findings = checks.findings(1)
    expect(idsOf(findings.reconciliations)).toEqual([1])
    checks.recorded(
      findings,
      findings.reconciliations.map((verdict) => rowOf(verdict, 'limited')),
    )
  }
  expect(checks.size).toBe(1)
})

test('a worker that stops records what was found at once, whatever stands in line', async () => {
  const { checks, asked, ask } = openChecks(1)
  ask(1)
  ask(2)
  ask(3)
  await asked[0]?.say(HELD)
  expect(checks.hasNews(1)).toBe(false)
  expect(checks.hasNews(null)).toBe(true)
})

test('a verdict that leads to a call waits for a slot, and one that a limit turned away is offered again later', async () => {
  const { checks, asked, ask, pass } = openChecks(3)
  for (const requestId of [1, 2, 3]) ask(requestId)
  await asked[0]?.say(REPLAY)
  await asked[1]?.say(HELD)
  await asked[2]?.say(REPLAY)
  expect(idsOf(checks.findings(0).reconciliations)).toEqual([2])
  const findings = checks.findings(1)
  expect(idsOf(findings.reconciliations)).toEqual([2, 1])
  checks.recorded(
    findings,
    findings.reconciliations.map((verdict, i) => rowOf(verdict, i === 1 ? 'limited' : null)),
  )
  expect([checks.hasNews(0), checks.hasNews(1)]).toEqual([false, true])
  const next = checks.findings(1)
  expect(idsOf(next.reconciliations)).toEqual([1, 3])
  checks.recorded(
    next,
    next.reconciliations.map((verdict, i) => rowOf(verdict, i === 0 ? 'limited' : null)),
  )
  expect([checks.hasNews(1), checks.size]).toEqual([false, 1])
  pass(250)
  expect(checks.hasNews(1)).toBe(true)
})

test('what is aborted is asked no more, and what it still says is not kept', async () => {
  const { checks, asked, ask, news } = openChecks(1)
  ask(1)
  ask(2)
  checks.abort()
  expect(asked[0]?.signal.aborted).toBe(true)
  await asked[0]?.say(HELD)
  expect([asked.length, checks.hasNews(null), checks.findings(1).reconciliations.length]).toEqual([1, false, 0])
  expect(news()).toBeLessThanOrEqual(1)
})
