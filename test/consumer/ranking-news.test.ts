// Two configs, one queue: the worker that started last says how it is ranked, and whoever says otherwise is told in the log.
import { expect, onTestFinished, test } from 'vitest'
import type { Log } from '../../src/core/log.ts'
import { defineTarget, type Onceish, openOnceish } from '../../src/index.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'

const ANYTHING = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
} as const

interface Line {
  readonly level: string
  readonly target: unknown
  readonly message: string
}

async function open(store: string, aging?: string): Promise<{ once: Onceish; lines: Line[]; called: unknown[] }> {
  const lines: Line[] = []
  const called: unknown[] = []
  const write = (level: string) => (fields: object, message: string) => {
    if (message.startsWith('the queue of'))
      lines.push({ level, target: (fields as { target?: string }).target, message })
  }
  const log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') } as Log
  const target = defineTarget({
    name: 'job',
    version: '1',
    payload: ANYTHING,
    invoke: ({ payload }) => {
      called.push(payload)
      return { taskId: `task-${String(payload)}` }
    },
    ...(aging === undefined ? {} : { policy: { aging } }),
  })
  const once = await openOnceish({ store, targets: [target], log })
  onTestFinished(() => once.close())
  return { once: once as unknown as Onceish, lines, called }
}

test('the newest word holds for all processes, and the log of the others says so', async () => {
  const store = `${tempDir()}/jobs.db`
  const first = await open(store, '10m')
  const worker = first.once.startWorker()
  await first.once.enqueue({ target: 'job', payload: 1 })
  await first.once.waitFor(1)
  expect(first.lines).toEqual([
    {
      level: 'info',
      target: 'job',
      message: 'the queue of job is ranked by priority and age (600000 ms a step), and was by priority alone',
    },
  ])
  const second = await open(store)
  await second.once.startWorker(DRAIN).done
  expect(second.lines.map(({ message }) => message)).toEqual([
    'the queue of job is ranked by priority alone, and was by priority and age (600000 ms a step)',
  ])
  await first.once.enqueue({ target: 'job', payload: 2 })
  await first.once.waitFor(2)
  expect(first.lines.slice(1)).toEqual([
    {
      level: 'warn',
      target: 'job',
      message:
        'the queue of job is ranked by priority alone, by the word of a worker that started later; the config of this one says by priority and age (600000 ms a step)',
    },
  ])
  await worker.stop()
  // Said once more, it holds again.
  const third = await open(store, '10m')
  const hour = 3_600_000
  await third.once.enqueue({ target: 'job', payload: 'young', priority: 5 })
  await third.once.enqueue({ target: 'job', payload: 'old', runAt: Date.now() - hour })
  await third.once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect(third.called).toEqual(['old', 'young'])
})
