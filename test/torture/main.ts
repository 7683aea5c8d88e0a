// npm run torture -- [--minutes N] [--seed S] [--store postgres://...]
// Exit 0: everything held. 1: a violation, with its seed; the store stays. 2: usage.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { whole } from '../simulation/run.ts'
import { type Progress, type Tortured, torture } from './torture.ts'

const SAY_EVERY_MS = 10_000
const A_MINUTE_MS = 60_000

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function readArguments(): { readonly minutes: number; readonly seed: number; readonly store: string | undefined } {
  try {
    const { values } = parseArgs({
      options: { minutes: { type: 'string' }, seed: { type: 'string' }, store: { type: 'string' } },
    })
    const minutes = Number(values.minutes ?? '1')
    if (!(minutes > 0 && minutes < 100_000)) throw new Error(`"${values.minutes}" is no number of minutes above 0`)
    return { minutes, seed: whole(values.seed ?? '1'), store: values.store }
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`)
    process.exit(2)
  }
}

function numbersOf({ requests, kills, calls }: Progress): string {
  return `${requests} requests, ${kills} kills, ${calls} calls`
}

function summaryOf(tortured: Tortured): string {
  const { replays, adopted, held, duplicates } = tortured
  return `${numbersOf(tortured)}, ${replays} replays, ${adopted} adopted, ${held} held, duplicates ${duplicates}`
}

async function main(): Promise<number> {
  const { minutes, seed, store: given } = readArguments()
  const folder = mkdtempSync(join(tmpdir(), 'onceish-torture-'))
  const store = given ?? join(folder, 'onceish.db')
  const startedAt = performance.now()
  let saidAt = startedAt
  const again = `npm run torture -- --minutes ${minutes} --seed ${seed}`
  try {
    const tortured = await torture({
      seed,
      folder,
      store,
      isEnough: () => performance.now() - startedAt >= minutes * A_MINUTE_MS,
      onProgress: (progress) => {
        if (performance.now() - saidAt < SAY_EVERY_MS) return
        saidAt = performance.now()
        say(`${Math.round((saidAt - startedAt) / 1000)} s: ${numbersOf(progress)}`)
      },
    })
    for (const violation of tortured.violations) say(`violated: ${violation}`)
    say(`seed ${seed}: ${summaryOf(tortured)}`)
    if (tortured.violations.length === 0) {
      rmSync(folder, { recursive: true, force: true })
      return 0
    }
    say(`seed ${seed} fails; the store is ${store}; again: ${again}`)
  } catch (error) {
    say(`seed ${seed} broke off: ${(error as Error).message}; the store is ${store}; again: ${again}`)
  }
  return 1
}

// Ctrl-C ends the others by their parent's exit.
process.on('SIGINT', () => process.exit(130))
process.on('SIGTERM', () => process.exit(143))
process.exitCode = await main()
