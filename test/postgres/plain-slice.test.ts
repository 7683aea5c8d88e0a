// What a turn makes of the same rows is the same with and without a database in memory.
import { expect, test } from 'vitest'
import { NO_POLICY } from '../../src/core/policy.ts'
import { LANES_A_TURN } from '../../src/store/bounds.ts'
import { runPlainly } from '../../src/store/postgres/plain-slice.ts'
import { createSlice, type Row } from '../../src/store/postgres/slice.ts'
import type { Statements } from '../../src/store/sqlite/statements.ts'
import { runTurn } from '../../src/store/sqlite/turn.ts'
import type { Preparation, TurnInput } from '../../src/store/turn.ts'
import { type Chance, createChance } from '../simulation/chance.ts'
import { ALIKE, NOTHING_SAID } from '../support/alike.ts'

const NOW = 1_000_000
const FACTS = { highWaterAt: NOW - 5, clockAheadMs: 0, nextExpiryAt: null, isRanked: false }
const STORE: Row = {
  schema_version: 1, namespace: 'n', incarnation: 'i', high_water_at: NOW - 5, has_called: 1, clock_ahead_ms: 0,
} // biome-ignore format: a row

/** Requests of many priorities and instants, many of them alike, as a turn has loaded them. */
function loaded(chance: Chance, requests: number, targets: readonly string[]): Map<string, Row[]> {
  const rows = Array.from({ length: requests }, (_, at): Row => {
    const target = chance.pick(targets)
    const priority = chance.below(3)
    return {
      '^': `${at + 7}`, request_id: at + 1, target, logical_hash: at % 2 === 0 ? `v1:${'0a'.repeat(32)}` : `given ${at}`, priority,
      due_at: NOW - chance.below(3), generation: 1, dedupe: 'always', created_at: NOW - 9, payload: `{"n":${at}}`,
      expires_at: null, ordering_key: null, group_key: null,
    } // biome-ignore format: a row
  })
  const ready = rows.map((row): Row => ({
    '^': row['^'] ?? null, target: row['target'] ?? null, group_key: '', rank: -(row['priority'] as number),
    due_at: row['due_at'] ?? null, request_id: row['request_id'] ?? null,
  })) // biome-ignore format: a row
  return new Map([
    ['store', [STORE]],
    ['requests', shuffled(rows, chance)],
    ['ready', shuffled(ready, chance)],
  ])
}

function turnWith(options: { slots: number; targets: readonly string[]; dies?: boolean }) {
  const input: TurnInput = {
    now: () => NOW,
    steady: { now: () => NOW, hear: () => {}, isNews: () => false },
    worker: { name: 'w', boot: 'b' },
    leaseMs: 60_000,
    ...NOTHING_SAID,
    claim: {
      ...ALIKE,
      slots: options.slots,
      lookFrom: null,
      targets: options.targets.map((name) => ({ name, policy: NO_POLICY })),
      prepare: ({ requestId, payload }): Preparation =>
        options.dies === true && requestId === 2
          ? { kind: 'dead', reason: 'cannot_render', note: 'no' }
          : {
              kind: 'prepared', key: requestId % 3 === 0 ? null : `key-${requestId}`, targetVersion: 'v1',
              call: { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: payload, account: null },
            }, // biome-ignore format: a call
    },
    check: { slots: 4, room: new Map() },
    policyOf: () => NO_POLICY,
    random: () => 0,
  }
  return (sql: Statements) => runTurn(sql, input, null, FACTS)
}

test('claims are the same, whatever the order in which their rows came', () => {
  const slice = createSlice()
  try {
    for (let seed = 1; seed <= 60; seed++) {
      const chance = createChance(seed)
      const targets = Array.from({ length: seed % 10 === 0 ? LANES_A_TURN + 6 : 1 + (seed % 4) }, (_, at) => `t${at}`)
      const requests = 1 + chance.below(40)
      const rows = loaded(chance, requests, targets)
      if (seed % 5 === 0) rows.set('targets', [{ '^': '1', target: targets[0] ?? '', paused_at: 5 }])
      const turn = turnWith({ slots: chance.below(30), targets })
      const plainly = runPlainly(rows, turn)
      if (plainly === null) throw new Error(`seed ${seed} was not plain`)
      expect(comparable(plainly), `seed ${seed}`).toEqual(comparable(slice.run(rows, turn)))
    }
  } finally {
    slice.close()
  }
})

test.each(['task_state', 'expiries', 'breakers', 'timed_pauses', 'group_rotation', 'ordering_heads', 'invoking'])(
  'with rows of %s there is more to it',
  (table) => {
    const rows = loaded(createChance(1), 5, ['t0']).set(table, [{}])
    expect(runPlainly(rows, turnWith({ slots: 5, targets: ['t0'] }))).toBeNull()
  },
)

test('a request that ends uncalled takes more than claims do', () => {
  const rows = loaded(createChance(1), 5, ['t0'])
  expect(runPlainly(rows, turnWith({ slots: 5, targets: ['t0'], dies: true }))).toBeNull()
})

test('what the rules throw is thrown', () => {
  const rows = loaded(createChance(1), 1, ['t0'])
  const broken = () => {
    throw new Error('broken')
  }
  expect(() => runPlainly(rows, broken)).toThrow('broken')
})

type Run = ReturnType<ReturnType<typeof createSlice>['run']>

/** Without nonces, which are chance, nulls, which mean what is left out, and the order of what is written. */
function comparable({ made, changes }: { readonly made: unknown; readonly changes: Run['changes'] }): unknown {
  const text = JSON.stringify({ made, changes }, (key, value) =>
    key === 'nonce' || value === null ? undefined : value,
  )
  const plain = JSON.parse(text) as { changes: Record<string, Record<string, Row[]>> }
  for (const table of Object.values(plain.changes))
    for (const rows of Object.values(table)) rows.sort((a, b) => Number(a['request_id']) - Number(b['request_id']))
  return plain
}

function shuffled<T>(items: readonly T[], chance: Chance): T[] {
  return items
    .map((item) => ({ item, at: chance.next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
