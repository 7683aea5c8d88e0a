// (f) The memory of the command line: a million requests are enqueued from an NDJSON file and drained, each by a process of its
// own, against a server in another one. Peaks are no matter of luck, and a million takes minutes: one round.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { startApi } from '../api/start-server.ts'
import { configOf, payloadOf } from '../requests.ts'
import type { Bench, Scenario } from '../scenario.ts'

const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
const PEAK_RSS = new URL('../peak-rss.mjs', import.meta.url).href
const CONCURRENCY = 64
const AIM = { atMost: 200 }
const LINES_A_WRITE = 1000

export const memory: Scenario = {
  name: 'memory',
  says: 'the peak memory of the command line while it enqueues a million requests from a file, and while it drains them',
  run: async (bench) => {
    const api = await startApi(0)
    try {
      await measure(bench, api.origin)
    } finally {
      await api.stop()
    }
  },
}

async function measure(bench: Bench, origin: string): Promise<void> {
  const requests = bench.size === 'quick' ? 20_000 : 1_000_000
  const lines = join(bench.folder, 'requests.ndjson')
  const config = join(bench.folder, 'onceish.config.json')
  writeLines(lines, requests)
  writeFileSync(config, JSON.stringify(configOf('./onceish.db', origin)))
  const bytes = statSync(lines).size

  const enqueue = await runCommand(['enqueue', '--file', lines, '--config', config, '--json'])
  if (enqueue.printed['enqueued'] !== requests) throw new Error(`enqueued: ${JSON.stringify(enqueue.printed)}`)
  bench.say(`  ${requests} requests of ${Math.round(bytes / 1e6)} MB are enqueued`)
  const work = await runCommand(['work', '--drain', '--concurrency', String(CONCURRENCY), '--config', config, '--json'])
  const states = work.printed['states'] as Readonly<Record<string, number>>
  if (states['submitted'] !== requests) throw new Error(`drained: ${JSON.stringify(states)}`)

  for (const [name, { peakMb, seconds }] of Object.entries({ enqueue, 'work --drain': work })) {
    const what = `${requests.toLocaleString('en')} requests: ${name}`
    bench.figure({ name: `${what}, peak RSS`, unit: 'MB', values: [peakMb], aim: AIM })
    bench.figure({ name: what, unit: 'requests/s', values: [requests / seconds] })
  }
}

function writeLines(path: string, requests: number): void {
  const file = openSync(path, 'w')
  for (let made = 0; made < requests; made += LINES_A_WRITE) {
    const some = Array.from({ length: Math.min(LINES_A_WRITE, requests - made) }, (_, i) => made + i)
    writeSync(file, some.map((i) => `${JSON.stringify({ target: 'render', payload: payloadOf(i) })}\n`).join(''))
  }
  closeSync(file)
}

interface Ran {
  readonly printed: Readonly<Record<string, unknown>>
  /** Of 10^6 bytes. */
  readonly peakMb: number
  readonly seconds: number
}

async function runCommand(words: readonly string[]): Promise<Ran> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['--import', PEAK_RSS, MAIN, ...words], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  const [, stdout, , peak] = child.stdio as unknown as readonly [null, Readable, null, Readable]
  const ended = once(child, 'exit')
  const [printed, peakKib] = await Promise.all([text(stdout), text(peak)])
  const [code] = (await ended) as [number | null]
  if (code !== 0) throw new Error(`"onceish ${words[0]}" ended with ${code}`)
  const seconds = (performance.now() - startedAt) / 1000
  return { printed: JSON.parse(printed) as Ran['printed'], peakMb: (Number(peakKib) * 1024) / 1e6, seconds }
}
