// (d) How fast requests are taken: one at a time, by many at once who each await their own, in bulk with schema and hash against
// a bare loop of inserts, and as NDJSON through the command line.
import { spawn } from 'node:child_process'
import { once as nextEvent } from 'node:events'
import { createWriteStream, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { z } from 'zod'
import type { GivenTarget, Onceish } from '../../../src/index.ts'
import { hashRequest } from '../../support/hash-request.ts'
import { loadBuilt } from '../built.ts'
import { type BenchPayload, configOf, payloadOf } from '../requests.ts'
import { inTurn, ratios } from '../rounds.ts'
import type { Scenario } from '../scenario.ts'

const SIZES = {
  quick: { single: 300, concurrent: 6400, bulk: 10_000, lines: 20_000 },
  full: { single: 1500, concurrent: 25_600, bulk: 40_000, lines: 100_000 },
  huge: { single: 5000, concurrent: 128_000, bulk: 400_000, lines: 1_000_000 },
}
const AT_ONCE = 64
/** As the product's own. */
const ROWS_A_TRANSACTION = 1000
const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
const NOWHERE = 'http://127.0.0.1:9'

const PAYLOAD = z.object({
  order: z.number().int(),
  customer: z.string().min(1),
  title: z.string().max(200),
  options: z.object({
    width: z.number().int(),
    height: z.number().int(),
    codec: z.enum(['h264', 'av1']),
    audio: z.boolean(),
  }),
  note: z.string(),
})

export const enqueue: Scenario = {
  name: 'enqueue',
  says: 'requests taken one at a time, by 64 at once, in bulk against a bare loop of inserts, and as NDJSON',
  run: async ({ size, rounds, folder, figure }) => {
    const sizes = SIZES[size]
    const open = (name: string) => openProduct(join(folder, `${name}.db`))
    const [single, concurrent, bulk] = [await open('single'), await open('concurrent'), await open('bulk')]
    const bare = await openBare(join(folder, 'bare.db'))
    const arms = {
      single: () => enqueueEach(single, sizes.single, 1),
      concurrent: () => enqueueEach(concurrent, sizes.concurrent, AT_ONCE),
      bulk: () => enqueueBulk(bulk, sizes.bulk),
      bare: () => bare.insert(sizes.bulk),
      lines: () => enqueueLines(join(folder, 'lines.db'), sizes.lines),
    }
    try {
      await Promise.all([enqueueEach(single, 100, 1), enqueueEach(concurrent, 6400, AT_ONCE)])
      await enqueueBulk(bulk, 5000)
      bare.insert(5000)
      const rates = await inTurn(rounds, arms)
      const unit = 'requests/s'
      const manifold = ratios(rates.concurrent, rates.single)
      figure({
        name: '64 at once against one at a time',
        unit: 'of one at a time',
        values: manifold,
        aim: { atLeast: 15 },
      })
      figure({ name: 'one at a time', unit, values: rates.single })
      figure({ name: '64 at once, each its own', unit, values: rates.concurrent })
      const share = ratios(rates.bulk, rates.bare)
      figure({
        name: 'bulk, with schema and hash, against bare inserts',
        unit: 'of bare inserts',
        values: share,
        aim: { atLeast: 0.65 },
      })
      figure({ name: 'bulk, with schema and hash', unit, values: rates.bulk, aim: { atLeast: 40_000 } })
      figure({ name: 'bare inserts', unit, values: rates.bare })
      figure({ name: 'NDJSON by the command line, whole process', unit, values: rates.lines })
    } finally {
      await Promise.all([single, concurrent, bulk].map((product) => product.close()))
      bare.close()
    }
  },
}

let made = 0

/** Made before the time is taken: what they cost is their producer's. */
function payloads(count: number): BenchPayload[] {
  return Array.from({ length: count }, () => payloadOf(++made))
}

async function openProduct(store: string): Promise<Onceish> {
  const { defineTarget, openOnceish } = await loadBuilt()
  const render: GivenTarget = defineTarget({
    name: 'render',
    version: '1',
    payload: PAYLOAD,
    policy: { timeoutMs: 5000, idempotency: { rememberedFor: '24h', margin: '1h' } },
    invoke: () => ({ taskId: 'none is called' }),
  })
  return openOnceish({ store, targets: [render] })
}

/** @returns requests a second. */
async function enqueueEach(product: Onceish, requests: number, atOnce: number): Promise<number> {
  const payloadsLeft = payloads(requests)
  const one = async () => {
    for (let payload = payloadsLeft.pop(); payload !== undefined; payload = payloadsLeft.pop()) {
      await product.enqueue({ target: 'render', payload })
    }
  }
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: atOnce }, one))
  return perSecond(requests, startedAt)
}

async function enqueueBulk(product: Onceish, requests: number): Promise<number> {
  const batch = payloads(requests).map((payload) => ({ target: 'render', payload }))
  const startedAt = performance.now()
  const { length } = await product.enqueueMany(batch)
  if (length !== requests) throw new Error(`${length} of ${requests} were enqueued`)
  return perSecond(requests, startedAt)
}

interface Bare {
  insert(rows: number): number
  close(): void
}

/** What a careful programmer writes who has text and hashes at hand, in the same tables, synced as ours. */
async function openBare(path: string): Promise<Bare> {
  await (await openProduct(path)).close()
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  const insertRequest = db.prepare(
    `INSERT INTO requests (target, logical_hash, priority, due_at, generation, dedupe, created_at, payload)
     VALUES (?, ?, 0, ?, 1, 'always', ?, ?)`,
  )
  const insertHash = db.prepare(
    `INSERT INTO logical_hashes (hash, payload_hash, request_id, generation) VALUES (?, NULL, ?, 1) ON CONFLICT DO NOTHING`,
  )
  const insertReady = db.prepare(
    "INSERT INTO ready (target, group_key, rank, due_at, request_id) VALUES (?, '', 0, ?, ?)",
  )
  const insertAll = db.transaction((rows: readonly { text: string; hash: Uint8Array }[]) => {
    const now = Date.now()
    for (const { text, hash } of rows) {
      const { lastInsertRowid } = insertRequest.run('render', hash, now, now, text)
      if (insertHash.run(hash, lastInsertRowid).changes !== 1) throw new Error('a row was there already')
      insertReady.run('render', now, lastInsertRowid)
    }
  })
  return {
    insert: (count) => {
      const rows = payloads(count).map((payload) => {
        return { text: JSON.stringify(payload), hash: hashRequest({ target: 'render', payload }).ledgerHash }
      })
      const startedAt = performance.now()
      for (let i = 0; i < count; i += ROWS_A_TRANSACTION) insertAll.immediate(rows.slice(i, i + ROWS_A_TRANSACTION))
      return perSecond(count, startedAt)
    },
    close: () => db.close(),
  }
}

/** From the start of the process to its end. */
async function enqueueLines(store: string, lines: number): Promise<number> {
  const config = join(dirname(store), 'lines.config.json')
  writeFileSync(config, JSON.stringify(configOf(store, NOWHERE)))
  const file = join(dirname(store), 'lines.ndjson')
  await writeLines(file, payloads(lines))
  const startedAt = performance.now()
  const child = spawn(process.execPath, [MAIN, 'enqueue', '--config', config, '--file', file, '--target', 'render'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = (await nextEvent(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`onceish enqueue ended with ${code}`)
  return perSecond(lines, startedAt)
}

async function writeLines(path: string, written: readonly BenchPayload[]): Promise<void> {
  const stream = createWriteStream(path)
  for (const payload of written) stream.write(`${JSON.stringify({ payload })}\n`)
  stream.end()
  await nextEvent(stream, 'finish')
}

function perSecond(count: number, startedAt: number): number {
  return count / ((performance.now() - startedAt) / 1000)
}
