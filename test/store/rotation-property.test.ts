// Whatever happens to a store, in whatever order: the rotation holds a group exactly while it has something ready, none waits for more
// than one call of each other, no worker goes to sleep beside what it could call, and everything is called once.
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { ENDED_STATES } from '../../src/core/task-state.ts'
import type { ClaimedCall, Investigation, Preparation } from '../../src/store/turn.ts'
import { createChance } from '../simulation/chance.ts'
import { LINE_FAULTS } from '../support/line-faults.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, rejected, unknown } from '../support/store.ts'

const GOING_ON = { ...KEYED, ordering: { onDead: 'continue' as const } }
const policies = { keyed: KEYED, goingOn: GOING_ON, limited: { ...KEYED, limits: { concurrency: 2, rate: null } } }
const TARGETS = ['keyed', 'goingOn', 'limited'] as const
const OWED = `SELECT 1 FROM requests LEFT JOIN task_state USING (request_id) WHERE COALESCE(state, '') NOT IN ('dead', 'canceled')`
const FAULTS = `${LINE_FAULTS}
  UNION ALL SELECT 'ready and in no rotation', request_id FROM ready WHERE group_key <> ''
    AND (target, group_key) NOT IN (SELECT target, group_key FROM group_rotation)
  UNION ALL SELECT 'in rotation with nothing ready', place FROM group_rotation
    WHERE (target, group_key) NOT IN (SELECT target, group_key FROM ready)`
const CLAIMABLE = `SELECT request_id FROM ready WHERE target <> 'limited' AND target NOT IN (
    SELECT target FROM targets WHERE paused_at > 0 UNION SELECT target FROM breakers WHERE opened_at > 0)`
// Each of these has found a fault; `SEEDS=FROM-TO` plays others.
const [from, to] = (process.env['SEEDS'] ?? '').split('-').map(Number)
const seeds =
  to === undefined ? [3, 11, 55, 75, 139] : Array.from({ length: to - Number(from) + 1 }, (_, n) => Number(from) + n)

test.each(seeds)('seed %i', async (seed) => {
  const chance = createChance(seed)
  const world = await openWorld({ policies })
  const worlds = [world, await openWorld({ policies, path: world.path, worker: { name: 'v', boot: 'b2' } })] as const
  const { clock, store } = world
  const db = new Database(world.path, { readonly: true })
  const all = (text: string) => db.prepare(text).pluck().all()
  const groups = [null, 'a', 'b\0"', ...'cdefghijklmnopqrst'].slice(0, chance.pick([3, 8, 21]))
  const [mostSlots, burst, misfits] = [chance.pick([2, 8, 30]), chance.pick([1, 4, 20]), chance.pick([0, 0.1])]
  const keys = chance.pick([[null], [null, null, 'k', 'l'], ['k', 'l']])
  const [enqueues, moves] = [chance.pick([8, 20]), chance.pick([0, 3, 15])]
  const placeOf = new Map<number, string>()
  /** Of each group that has something ready: which others of its target were called since it last was. */
  let seen = new Map<string, Set<string>>()
  let [inFlight, found]: [ClaimedCall[], readonly Investigation[]] = [[], []]
  let made = 0
  const over = new Set<number>()
  const readyIds = () => all('SELECT request_id FROM ready') as number[]
  const word = () => ({ now: clock.now, actor: 'ada', note: null, ifVersion: null })
  const options = { force: true, policyOf: (name: string) => policies[name as 'keyed'], expiresAt: null }
  const ended = { before: 1e15, states: ENDED_STATES, targets: null, abandoned: true }
  const someId = () => 1 + chance.below(placeOf.size + 1)
  const prepare = ({ requestId, payload: body }: { requestId: number; payload: string }): Preparation => {
    if (chance.is(misfits)) return { kind: 'dead', reason: 'payload_misfit', note: 'no' }
    const call = { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body, account: null }
    return { kind: 'prepared', key: `key-${requestId}`, call, targetVersion: 'v1' }
  }

  async function turn(slots: number, outcomeOf: (id: number) => Parameters<typeof answer>[1] | null): Promise<void> {
    const wereReady = new Set(readyIds())
    const outcomes = inFlight.map((call) => ({ call, outcome: outcomeOf(call.requestId) }))
    inFlight = outcomes.flatMap(({ call, outcome }) => (outcome === null ? [call] : []))
    const reconciliations = found.map(({ row: { requestId, target, version } }) => {
      const verdict = {
        kind: chance.pick(['adopt', 'hold'] as const),
        taskId: 't',
        reason: 'r',
        evidence: { phase: 'answered' as const },
      }
      return { requestId, target, version, policy: KEYED, verdict }
    })
    const results = outcomes.flatMap(({ call, outcome }) =>
      outcome === null ? [] : [answer(call, outcome, clock.now)],
    )
    const claim = { slots, lookFrom: null, targets: TARGETS.map((name) => ({ name, policy: policies[name] })), prepare }
    const result = await chance.pick(worlds).turn({ results, reconciliations, investigations: 2, claim })
    found = result.investigations
    inFlight.push(...result.calls)
    for (const { requestId, state, reason } of [...result.settled, ...result.reconciled]) {
      if (state === 'submitted') over.add(requestId)
      // What ends uncalled takes the turn of its group.
      if (reason === 'payload_misfit' || reason === 'expired') seen.delete(placeOf.get(requestId) ?? '')
    }
    const called = result.calls.map(({ requestId }) => placeOf.get(requestId) ?? '')
    // Whoever has its turn passed on to it in this one comes too late for it.
    const stay = readyIds().filter((id) => wereReady.has(id))
    const readyStill = [...called, ...stay.map((id) => placeOf.get(id))]
    for (const [n, place] of called.entries()) {
      for (const [other, calls] of seen) {
        if (other === place || other.split(' ')[0] !== place.split(' ')[0] || !readyStill.includes(other, n + 1))
          continue
        expect(calls.has(place), `${place} is called a second time while ${other} waits`).toBe(false)
        calls.add(place)
      }
      seen.get(place)?.clear()
    }
    for (const { requestId } of result.calls) expect(over.has(requestId), `${requestId} is called again`).toBe(false)
    if (called.length < slots && !result.more && !result.moreReady) expect(all(CLAIMABLE)).toEqual([])
  }

  async function enqueue(): Promise<void> {
    const dueAt = clock.now + chance.pick([0, 0, 0, 2000])
    const times = { dueAt, expiresAt: chance.is(0.1) ? dueAt + 1 + chance.below(5000) : null }
    const [target, group, priority] = [chance.pick(TARGETS), chance.pick(groups), chance.below(5)]
    const given = { target, group, priority, ...times, orderingKey: chance.pick(keys) }
    const { requestId } = await chance.pick(worlds).enqueue({ made: ++made }, given)
    placeOf.set(requestId, `${target} ${group ?? ''}`)
  }
  const outcomeOf = (id: number) => chance.pick([null, accepted(`t${id}`), notExecuted(), rejected, unknown()])
  const rankings = () => [{ target: chance.pick(TARGETS), agingMs: chance.pick([null, 1000, 60_000]) }]
  const forgotten = () => ({
    ...word(),
    knownUntil: 0,
    calledUntil: clock.now - 1000,
    dryRun: false,
    prepare: () => null,
  })
  const steps: readonly (readonly [string, often: number, () => unknown])[] = [
    ['enqueue', enqueues, () => Promise.all(Array.from({ length: 1 + chance.below(burst) }, enqueue))],
    ['turn', 30, () => turn(chance.below(mostSlots), outcomeOf)],
    ['time', 10, () => Object.assign(clock, { now: clock.now + chance.pick([1, 300, 2000, 15_000]) })],
    ['pause', 2, () => store.pause(chance.pick(TARGETS), null, 'ada', clock.now)],
    ['resume', 3, () => Promise.all(TARGETS.map((target) => store.resume(target, 'ada', clock.now)))],
    ['cancel', 3, () => store.cancel(someId(), word())],
    ['reprioritize', moves, () => worlds[1].store.reprioritize(someId(), chance.below(7), word())],
    ['retry', 3, () => store.retry(someId(), word(), options)],
    ['resolve', 3, () => store.resolve(someId(), { kind: 'not_executed' }, word(), options)],
    ['purge', 2, () => store.purgeAfter(0, ended, { ...word(), dryRun: false })],
    ['age', 2, () => store.rank(rankings(), clock.now, 'w')],
    ['restore', 0.3, () => store.doubtForgotten(0, forgotten())],
  ]
  const take = async (name: string) => {
    seen = new Map(readyIds().map((id) => [placeOf.get(id) ?? '', seen.get(placeOf.get(id) ?? '') ?? new Set()]))
    await steps.find(([known]) => known === name)?.[2]()
    worlds[1].clock.now = clock.now
    expect(db.prepare(FAULTS).all(), `after ${name}`).toEqual([])
  }
  for (let n = 0; n < 80; n++) await take(chance.weigh(steps.map(([name, often]) => [name, often] as const)))
  for (let rounds = 0; all(OWED).length > 0; rounds++) {
    expect(rounds).toBeLessThan(500)
    for (const name of ['resume', 'time']) await take(name)
    await turn(1 + chance.below(mostSlots), (id) => accepted(`t${id}`))
    for (const id of all(`SELECT request_id FROM task_state WHERE state IN ('held', 'dead')`) as number[]) {
      await store.resolve(id, { kind: 'task_id', taskId: `t${id}` }, word(), options)
      await store.cancel(id, word())
    }
  }
  db.close()
  for (const each of worlds) await each.store.close()
})
