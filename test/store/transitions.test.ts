import { expect, test } from 'vitest'
import { isAllowed, type StoredState, type TaskState, TRANSITIONS } from '../../src/core/task-state.ts'
import { transition } from '../../src/core/transition.ts'
import type { Statements } from '../../src/store/sqlite/statements.ts'
import { applyTransition } from '../../src/store/sqlite/transitions.ts'

const STATES = Object.keys(TRANSITIONS) as StoredState[]
const PAIRS = STATES.flatMap((from) => STATES.map((to) => [from, to] as const))
const FORBIDDEN = PAIRS.filter(([from, to]) => from !== to && !isAllowed(from, to))

/** Whatever is asked of it is a write that must not have happened. */
const untouchable = new Proxy(
  {},
  { get: (_, name) => expect.fail(`the store was asked to ${String(name)}`) },
) as Statements

test.each(FORBIDDEN)('%s never becomes %s: a broken invariant, before anything is written', (from, to) => {
  const row = { requestId: 1, state: from, version: 1 } as TaskState
  expect(() => applyTransition(untouchable, row, transition(to), { now: 1, actor: 'test' })).toThrow(
    expect.objectContaining({ code: 'INVARIANT_BROKEN' }),
  )
})

test('what has ended well stays ended, and doubt never turns into dead or canceled but through the ways named', () => {
  for (const state of ['succeeded', 'canceled'] as const) expect(TRANSITIONS[state]).toEqual([])
  for (const state of ['failed', 'expired', 'lost'] as const) expect(TRANSITIONS[state]).toEqual(['submitted'])
  expect(TRANSITIONS.submitted).toEqual(['succeeded', 'failed', 'expired', 'lost'])
  expect(TRANSITIONS.dead).toEqual(['queued', 'canceled', 'submitted'])
})
