// The hot statements must go by their index, whatever the tables hold: a scan here is a worker that slows with its backlog.
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { defineFunctions, SQL } from '../../src/store/sqlite/statements.ts'
import { openWorld } from '../support/store.ts'

const HOT: Record<string, RegExp> = {
  expiredRequests: /^SEARCH expiries USING PRIMARY KEY \(expires_at<\?\)$/,
  facts: /^(?![\s\S]*USE TEMP B-TREE)[\s\S]*SEARCH expiries/,
  promote: /SEARCH waiting USING PRIMARY KEY \(due_at=\? AND request_id=\?\)[\s\S]*SEARCH rankings USING PRIMARY KEY/,
  deleteReady:
    /^SEARCH ready USING PRIMARY KEY \(target=\? AND group_key=\? AND rank=\? AND due_at=\? AND request_id=\?\)/,
  ranksAfter:
    /^(?![\s\S]*USE TEMP B-TREE)[\s\S]*SEARCH ready USING PRIMARY KEY \(target=\? AND \(group_key,rank,due_at,request_id\)>[\s\S]*SEARCH requests USING INTEGER PRIMARY KEY/,
  nextLane: /^SEARCH ready USING (?:COVERING INDEX ready_aged|PRIMARY KEY) \(target>\?\)$/,
  groupedHeads: /^SEARCH ready USING PRIMARY KEY \(target=\? AND group_key>\?\)\nUSE TEMP B-TREE FOR GROUP BY$/,
  nextPlainHead: /^SEARCH ready USING PRIMARY KEY \(target=\? AND group_key=\? AND rank>\? AND rank<\?\)$/,
  nextAgedHead:
    /^(?![\s\S]*USE TEMP B-TREE)[\s\S]*SEARCH ready USING (?:COVERING )?INDEX ready_aged \(target=\? AND <expr>>\?\)/,
  queuedAfter: /^(?![\s\S]*USE TEMP B-TREE)SEARCH requests USING INTEGER PRIMARY KEY \(rowid>\?\)/,
  countExpired: /task_state_attention/,
  laneHead: /SEARCH ready USING PRIMARY KEY \(target=\? AND group_key=\? AND \(rank,due_at,request_id\)>/,
  dueWaiting: /^SEARCH waiting USING PRIMARY KEY \(due_at<\?\)[\s\S]*SEARCH requests USING INTEGER PRIMARY KEY/,
  groupsAfter: /^SEARCH group_rotation USING PRIMARY KEY \(target=\? AND place>\?\)$/,
  goBehindOthers:
    /^SEARCH group_rotation USING (?:COVERING )?INDEX \S+ \(target=\? AND group_key=\?\)[\s\S]*SEARCH group_rotation USING PRIMARY KEY \(target=\?\)$/,
  leaveRotation:
    /^SEARCH group_rotation USING (?:COVERING )?INDEX \S+ \(target=\? AND group_key=\?\)[\s\S]*SEARCH ready USING PRIMARY KEY \(target=\? AND group_key=\?\)$/,
  enterRotation: /^SCALAR SUBQUERY \d+\nSEARCH group_rotation USING PRIMARY KEY \(target=\?\)$/,
  nextWaitingAt: /SEARCH waiting/,
  nextExpiryAt: /SEARCH expiries/,
  expiredLeases: /^SEARCH task_state USING COVERING INDEX task_state_invoking \(lease_until<\?\)$/,
  noteExpired: /^SEARCH task_state USING INDEX task_state_invoking \(lease_until<\?\)/,
  expireIfInvoking: /^SEARCH task_state USING INTEGER PRIMARY KEY/,
  plainDoubt: /SEARCH task_state USING INTEGER PRIMARY KEY/,
  adoptIfUnknown: /SEARCH task_state USING INTEGER PRIMARY KEY/,
  nextLeaseEnd: /task_state_invoking/,
  invokingOf: /task_state_invoking/,
  invokingOfBucket:
    /^SEARCH task_state USING COVERING INDEX task_state_invoking|^SCAN task_state USING COVERING INDEX task_state_invoking/,
  bucketTokens: /SEARCH buckets USING PRIMARY KEY/,
  timedPausesOf: /SEARCH timed_pauses USING PRIMARY KEY \(scope=\? AND name=\?\)/,
  returnBegun: /SEARCH timed_pauses USING PRIMARY KEY \(scope=\? AND name=\?\)/,
  dueUnknown: /SEARCH task_state USING INDEX task_state_unknown \(next_check_at<\?\)/,
  dueTracked: /SEARCH task_state USING INDEX task_state_tracked \(next_check_at<\?\)/,
  nextUnknownAt: /task_state_unknown/,
  nextTrackedAt: /task_state_tracked/,
  submitIfInvoking: /SEARCH task_state USING INTEGER PRIMARY KEY/,
  renewIfHeld: /SEARCH task_state USING INTEGER PRIMARY KEY/,
  deleteIfPlain: /SEARCH requests USING INTEGER PRIMARY KEY/,
  deleteReadyThrough: /SEARCH ready USING PRIMARY KEY \(target=\? AND group_key=\? AND \(rank,due_at,request_id\)</,
  claimable: /SEARCH requests USING INTEGER PRIMARY KEY[\s\S]*SEARCH task_state USING INTEGER PRIMARY KEY/,
  findHash: /SEARCH logical_hashes USING PRIMARY KEY/,
  purgeSlice:
    /^(?!.*TEMP B-TREE FOR ORDER)SEARCH task_state USING INTEGER PRIMARY KEY \(rowid>\?\)(?![\s\S]*SCAN task_state)/,
  purgeIfEnded: /^SEARCH task_state USING INTEGER PRIMARY KEY \(rowid=\?\)[\s\S]*SEARCH orphans USING COVERING INDEX/,
  purgeEvents: /SEARCH events USING (?:COVERING )?INDEX events_request/,
  keptPastAge: /SEARCH kept_payloads USING COVERING INDEX kept_payloads_age \(target=\? AND settled_at<\?\)/,
  doubtRows:
    /^(?![\s\S]*SCAN task_state(?! USING INDEX))[\s\S]*task_state_invoking[\s\S]*task_state_unknown[\s\S]*task_state_attention/,
  setDueAtUnlessOrdered: /^SEARCH requests USING INTEGER PRIMARY KEY/,
  headOf: /^SEARCH ordering_heads USING PRIMARY KEY \(target=\? AND ordering_key=\?\)$/,
  changeHead: /^SEARCH ordering_heads USING PRIMARY KEY \(target=\? AND ordering_key=\?\)$/,
  deleteHead: /^SEARCH ordering_heads USING PRIMARY KEY \(target=\? AND ordering_key=\?\)$/,
  firstFollower: /^SEARCH ordering_followers USING PRIMARY KEY \(target=\? AND ordering_key=\?\)$/,
  deleteFollower: /^SEARCH ordering_followers USING PRIMARY KEY \(target=\? AND ordering_key=\? AND request_id=\?\)$/,
  standAside: /^SEARCH ordering_followers USING PRIMARY KEY \(target=\? AND ordering_key=\? AND request_id=\?\)$/,
  isBehind:
    /SEARCH requests USING INTEGER PRIMARY KEY[\s\S]*SEARCH ordering_followers USING PRIMARY KEY \(target=\? AND ordering_key=\? AND request_id=\?\)$/,
  overview: /^(?![\s\S]*SCAN)[\s\S]*INTEGER PRIMARY KEY/,
}

test.each(Object.entries(HOT))('%s goes by its index, also after ANALYZE', async (name, plan) => {
  const world = await openWorld()
  const db = new Database(world.path)
  defineFunctions(db)
  const { text } = SQL[name as keyof typeof SQL]
  const names = [...text.matchAll(/:([a-z]\w*)/g)].map(([, parameter = '']) => [parameter, 1])
  const parameters = names.length > 0 ? [Object.fromEntries(names)] : [...text.matchAll(/\?/g)].map(() => 1)
  const explain = () =>
    (db.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...parameters) as { detail: string }[])
      .map((row) => row.detail)
      .join('\n')
  expect(explain()).toMatch(plan)
  for (let n = 0; n < 30; n++) {
    const group = n % 4 === 0 ? null : `group-${n % 7}`
    const orderingKey = n % 5 === 0 ? null : `key-${n % 3}`
    await world.enqueue({ n }, { orderingKey, group, dueAt: n % 2 === 0 ? null : world.clock.now + 1000 })
  }
  await world.turn({ slots: 5 })
  db.exec('ANALYZE')
  expect(explain()).toMatch(plan)
  db.close()
  await world.store.close()
})

test.each([
  'insertRequest',
  'insertReady',
  'insertReadyOf',
  'promote',
  'insertInvoking',
  'claimQueued',
  'submitIfInvoking',
  'saveIfVersion',
  'deleteIfPlain',
  'deleteReadyThrough',
  'goBehindOthers',
  'leaveRotation',
  'setDueAtUnlessOrdered',
  'becomeHead',
  'follow',
  'deleteHead',
  'firstFollower',
] as const)('%s fills no temporary table, which costs more than what it writes', async (name) => {
  const world = await openWorld()
  const db = new Database(world.path)
  defineFunctions(db)
  const { text } = SQL[name]
  const names = [...text.matchAll(/:([a-z]\w*)/g)].map(([, parameter = '']) => [parameter, 1])
  const parameters = names.length > 0 ? [Object.fromEntries(names)] : [...text.matchAll(/\?/g)].map(() => 1)
  const steps = db.prepare(`EXPLAIN ${text}`).all(...parameters) as { opcode: string }[]
  expect(steps.map(({ opcode }) => opcode)).not.toContain('OpenEphemeral')
  db.close()
  await world.store.close()
})

test('a statement is planned once, not at each bind: a plus hides the value of its LIMIT from the planner', () => {
  for (const [name, { text }] of Object.entries(SQL)) expect(text, name).not.toMatch(/LIMIT\s+[?:@$]/)
})
