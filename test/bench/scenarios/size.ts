// How much room a request takes in the database while it is owed and once it was submitted, and how far the log grows while
// a worker drains over HTTP. A database keeps the room that rows have left, for those to come: so both are told after draining.
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { loadBuilt } from '../built.ts'
import { configOf, payloadOf } from '../requests.ts'
import type { Bench, Scenario } from '../scenario.ts'
import { driveStore } from '../turns.ts'

const SLOTS = 256
const ENQUEUED_AT_ONCE = 10_000
const CONCURRENCY = 64
const LOOK_MS = 10
const MIB = 2 ** 20

export const size: Scenario = {
  name: 'size',
  says: 'bytes of the database a request, owed and submitted, and how far the log grows under load',
  run: async (bench) => {
    await measureRequests(bench, bench.size === 'quick' ? 20_000 : 1_000_000)
    await measureLog(bench, bench.size === 'quick' ? 10_000 : 50_000)
  },
}

async function measureRequests(bench: Bench, requests: number): Promise<void> {
  const path = join(bench.folder, 'requests.db')
  const { enqueue, turn, close } = await driveStore({ path })
  const empty = sizeOf(path)
  const payloadBytes = JSON.stringify(payloadOf(requests)).length
  try {
    for (let made = 0; made < requests; made += ENQUEUED_AT_ONCE) await enqueue(ENQUEUED_AT_ONCE)
    const owed = sizeOf(path)
    bench.say(`  ${requests} enqueued`)
    for (let settled = 0; settled < requests; ) settled += await turn(Math.min(SLOTS, requests - settled))
    const submitted = sizeOf(path)
    const a = (name: string, bytes: number) =>
      bench.figure({ name: `${name}, ${requests} of them`, unit: 'bytes a request', values: [bytes / requests] })
    bench.figure({ name: 'the payload itself', unit: 'bytes', values: [payloadBytes] })
    a('owed', owed.file - empty.file)
    a('submitted, rows alone', submitted.used - empty.used)
    a('submitted, with free room', submitted.file - empty.file)
  } finally {
    await close()
  }
}

interface FileSize {
  readonly file: number
  /** Without the pages that are free. */
  readonly used: number
}

/** Of all that was committed: what the log still holds is counted where it will stand. */
function sizeOf(path: string): FileSize {
  const db = new Database(path, { readonly: true })
  const ask = (pragma: string) => db.pragma(pragma, { simple: true }) as number
  const pageBytes = ask('page_size')
  const pages = ask('page_count')
  const free = ask('freelist_count')
  db.close()
  return { file: pages * pageBytes, used: (pages - free) * pageBytes }
}

async function measureLog(bench: Bench, requests: number): Promise<void> {
  const { openOnceish } = await loadBuilt()
  let made = 0
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(201).end(`{"id":"task-${++made}"}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const store = join(bench.folder, 'log.db')
  const onceish = await openOnceish({ config: configOf(store, origin) })
  let largest = 0
  try {
    const batch = Array.from({ length: requests }, (_, i) => ({ target: 'render', payload: payloadOf(i) }))
    await onceish.enqueueMany(batch)
    const stopped = new AbortController()
    const looking = (async () => {
      while (!stopped.signal.aborted) {
        largest = Math.max(largest, statSync(`${store}-wal`).size)
        await delay(LOOK_MS)
      }
    })()
    await onceish.startWorker({ concurrency: CONCURRENCY, drain: { horizonMs: 0 } }).done
    stopped.abort()
    await looking
  } finally {
    await onceish.close()
    server.close()
    server.closeAllConnections()
  }
  const name = `largest log while ${requests} drain, ${CONCURRENCY} at once`
  bench.figure({ name, unit: 'MiB', values: [largest / MIB] })
}
