// A store on a file with all that a copy has to bring, and both sides of a copy as they are in their tables.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { ledgerHashOf } from '../../src/core/logical-hash.ts'
import { TABLES } from '../../src/store/postgres/tables.ts'
import type { NewRequest } from '../../src/store/store.ts'
import { askStore } from '../support/ask-store.ts'
import { hashRequest } from '../support/hash-request.ts'
import {
  accepted,
  answer,
  blocked,
  KEYED,
  LOOKUP,
  notExecuted,
  OPAQUE,
  openWorld,
  rejected,
  unknown,
  type World,
} from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

/** Long enough ago for every lease to be over. */
export const SOME_TIME_AGO = Date.now() - 3_600_000

const POLICIES = {
  keyed: { ...KEYED, agingMs: 60_000 },
  opaque: OPAQUE,
  lookup: LOOKUP,
  kept: { ...KEYED, keepPayloadMs: 86_400_000 },
  shared: { ...KEYED, limits: { concurrency: 50, rate: { calls: 50, perMs: 1000, burst: 50 }, bucket: 'account' } },
} as unknown as Parameters<typeof openWorld>[0] & Record<string, typeof KEYED>

export async function smallStore(requests = 5): Promise<World> {
  const world = await openWorld({ path: join(tempDir(), 'jobs.db'), now: SOME_TIME_AGO })
  for (let n = 0; n < requests; n++) await world.enqueue({ n })
  return world
}

/** Every state, kind of hash, queue and table, among so many requests. @returns its path; it is closed. */
export async function richStore(requests: number): Promise<string> {
  const path = join(tempDir(), 'jobs.db')
  const world = await openWorld({ path, now: SOME_TIME_AGO, policies: POLICIES })
  const { store, clock } = world
  await store.saveDescriptions(
    Object.keys(POLICIES).map((name) => {
      return { name, version: 'v1', description: `{"of":"${name}"}`, bucket: name === 'shared' ? 'account' : undefined }
    }),
    clock.now,
  )
  await store.rank([{ target: 'keyed', agingMs: 60_000 }], clock.now, 'test')
  for (let n = 0; n < requests; n += 1000) {
    const batch = Array.from({ length: Math.min(1000, requests - n) }, (_, i) => requestOf(n + i))
    await store.enqueue(batch, clock.now)
  }
  const outcomes = [accepted('t'), unknown(), unknown(true), notExecuted(), rejected, accepted('t')]
  let results: ReturnType<typeof answer>[] = []
  for (let turn = 0; turn < 12; turn++) {
    clock.now += 1000
    const { calls } = await world.turn({ slots: 64, results })
    results = calls.map((call, i) => {
      const outcome = outcomes[i % outcomes.length] ?? rejected
      return answer(call, outcome.kind === 'accepted' ? accepted(`t-${call.requestId} ✓`) : outcome, clock.now)
    })
  }
  await world.turn({ results: results.slice(1) })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call !== undefined) await world.turn({ results: [answer(call, blocked, clock.now)] })
  await store.pause('lookup', 'by hand', 'ada', clock.now)
  await store.close()
  spreadStates(path)
  return path
}

function requestOf(n: number): NewRequest {
  const target = ['keyed', 'opaque', 'lookup', 'kept', 'shared'][n % 5] ?? 'keyed'
  const payload = { n, text: `line\nä€😀 "${'x'.repeat(n % 300)}"` }
  const isGiven = n % 7 === 0
  const logicalHash = `order/${n}/ä`
  return {
    target,
    payload: JSON.stringify(payload),
    ...(isGiven
      ? { logicalHash, ledgerHash: ledgerHashOf(target, logicalHash), payloadHash: randomBytes(32) }
      : hashRequest({ target, payload })),
    priority: (n % 11) - 5,
    dueAt: n % 13 === 0 ? SOME_TIME_AGO + 90 * 86_400_000 + n : null,
    orderingKey: n % 17 === 0 ? `key-${n % 34}` : null,
    group: n % 3 === 0 ? `group ${n % 9}` : null,
    dedupe: n % 19 === 0 ? 'live' : 'always',
    expiresAt: n % 23 === 0 ? SOME_TIME_AGO + 365 * 86_400_000 + n : null,
  }
}

/** What takes days, or an API, to come about. */
function spreadStates(path: string): void {
  const db = new Database(path)
  for (const [state, rest] of Object.entries({ succeeded: 1, failed: 2, expired: 3, lost: 4, canceled: 5 })) {
    db.prepare(`UPDATE task_state SET state = ? WHERE state = 'submitted' AND request_id % 8 = ?`).run(state, rest)
  }
  db.exec(`UPDATE task_state SET state = 'held', reason = 'opaque' WHERE state = 'unknown' AND request_id % 2 = 0;
    UPDATE task_state SET evidence = '{"text":"\\u0000 and \u2028"}', older_answer = '{"kind":"x"}' WHERE request_id % 3 = 0;
    UPDATE task_state SET next_check_at = ended_at WHERE state = 'submitted' AND request_id % 3 = 0;
    UPDATE logical_hashes SET generation = 4 WHERE request_id % 5 = 0;
    INSERT INTO orphans (orphan_id, request_id, target, attempt, task_id, found_at, evidence)
      SELECT request_id + 7, request_id, target, 2, 'second ' || request_id, updated_at, NULL FROM task_state LIMIT 20;
    INSERT OR REPLACE INTO breakers VALUES ('opaque', 3, 5, 7, 3, NULL, NULL, 0, NULL, NULL);
    INSERT OR IGNORE INTO kept_payloads SELECT request_id, target, updated_at, '{"kept":1}' FROM task_state WHERE state = 'succeeded';
    INSERT OR REPLACE INTO timed_pauses VALUES ('bucket', 'account', 'told', 1, 2, 'worker', 3, 0);
    INSERT OR IGNORE INTO buckets VALUES ('account', 0.1 + 0.2, 17), ('tiny', 1e-9, 18), ('whole', 3.0, 19);
    UPDATE sqlite_sequence SET seq = seq + 1000`)
  db.close()
}

export const COPIED_TABLES = TABLES.map(({ name }) => name)

/** Row by row, past the product, in the words of PostgreSQL. */
export async function contentOf(location: string): Promise<Record<string, readonly string[]>> {
  const content: Record<string, readonly string[]> = {}
  for (const { name, columns } of TABLES) {
    const names = Object.keys(columns).map((column) => `"${column}"`)
    const rows = await askStore(location, `SELECT ${names.join(', ')} FROM ${name}`)
    content[name] = rows.map((row) => JSON.stringify(Object.entries(row).map(asText))).toSorted()
  }
  return content
}

function asText([column, cell]: [string, unknown]): unknown {
  if (!Buffer.isBuffer(cell)) return cell
  return `${column === 'logical_hash' ? 'v1:' : 'bytes '}${cell.toString('hex')}`
}

export async function identityOf(location: string): Promise<unknown> {
  const [row] = await askStore(location, 'SELECT namespace, incarnation, high_water_at FROM store')
  return row
}
