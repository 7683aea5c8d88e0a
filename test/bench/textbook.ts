// The same protocol as a careful programmer writes it from a textbook: one wide table, one request at a time, and two synced
// transactions for each, one before its call and one after it.
import { createHash, randomUUID } from 'node:crypto'
import Database from 'better-sqlite3'
import { payloadOf } from './requests.ts'

export interface Textbook {
  enqueue(requests: number): void
  /** Takes one request through both transactions. */
  submitOne(): void
  close(): void
}

const LEASE_MS = 60_000

export function openTextbook(path: string): Textbook {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec(`
    CREATE TABLE requests (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      hash TEXT NOT NULL UNIQUE,
      state TEXT NOT NULL,
      priority INTEGER NOT NULL,
      due_at INTEGER NOT NULL,
      payload TEXT NOT NULL,
      attempt INTEGER NOT NULL DEFAULT 0,
      nonce TEXT,
      idempotency_key TEXT,
      lease_until INTEGER,
      task_id TEXT,
      updated_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX requests_ready ON requests (priority DESC, due_at, id) WHERE state = 'ready';
  `)
  const insert = db.prepare(
    `INSERT INTO requests (hash, state, priority, due_at, payload, updated_at) VALUES (?, 'ready', 0, ?, ?, ?)`,
  )
  const next = db.prepare(
    `SELECT id, hash, payload FROM requests WHERE state = 'ready' AND due_at <= ? ORDER BY priority DESC, due_at, id LIMIT 1`,
  )
  const claim = db.prepare(
    `UPDATE requests SET state = 'invoking', attempt = attempt + 1, nonce = ?, idempotency_key = ?, lease_until = ?, updated_at = ?
     WHERE id = ? AND state = 'ready'`,
  )
  const settle = db.prepare(
    `UPDATE requests SET state = 'submitted', task_id = ?, lease_until = NULL, updated_at = ?
     WHERE id = ? AND state = 'invoking' AND nonce = ?`,
  )
  let made = 0

  const enqueue = db.transaction((requests: number) => {
    for (let i = 0; i < requests; i++) {
      const payload = JSON.stringify(payloadOf(++made))
      const now = Date.now()
      insert.run(createHash('sha256').update(payload).digest('hex'), now, payload, now)
    }
  })
  const claimOne = db.transaction(() => {
    const now = Date.now()
    const { id, hash } = next.get(now) as { id: number; hash: string; payload: string }
    const nonce = randomUUID()
    assertOne(claim.run(nonce, `textbook-${hash}`, now + LEASE_MS, now, id).changes)
    return { id, nonce }
  })
  const settleOne = db.transaction(({ id, nonce }: { id: number; nonce: string }) => {
    assertOne(settle.run(`task-${id}`, Date.now(), id, nonce).changes)
  })

  return {
    enqueue: (requests) => enqueue.immediate(requests),
    submitOne: () => settleOne.immediate(claimOne.immediate()),
    close: () => db.close(),
  }
}

function assertOne(changes: number): void {
  if (changes !== 1) throw new Error('the textbook lost a request')
}
