// Slots are shared between targets: none takes another's for longer than a moment, and none waits for ever.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, openOnceish } from '../../src/index.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

/** Calls of `hangs` end when the test says so; those of the others are over at once. */
async function openWorld() {
  const called: string[] = []
  const ends: (() => void)[] = []
  const targetOf = (name: string) =>
    defineTarget({
      name,
      version: '1',
      payload: z.object({ n: z.number() }),
      policy: { timeoutMs: 30_000, idempotency: { rememberedFor: '24h', margin: '1h' } },
      invoke: async ({ key }) => {
        called.push(name)
        if (name === 'hangs') await new Promise<void>((resolve) => ends.push(resolve))
        return { kind: 'accepted', taskId: key ?? '' }
      },
    })
  const targets = ['flood', 'trickle', 'hangs'].map(targetOf)
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets })
  const enqueue = (target: string, count: number, priority = 0) =>
    once.enqueueMany(Array.from({ length: count }, (_, n) => ({ target, payload: { n }, priority })))
  onTestFinished(async () => {
    for (const end of ends) end()
    await once.close()
  })
  return { once, called, ends, enqueue }
}

test('calls that hang leave the others their slots, and are no more than the concurrency', async () => {
  const { once, called, ends, enqueue } = await openWorld()
  await enqueue('hangs', 5, 9)
  const worker = once.startWorker({ concurrency: 2 })
  await waitFor(() => called.length === 2, { what: 'two calls that hang' })
  await enqueue('trickle', 20)
  await waitFor(() => worker.report().settled['submitted'] === 20, { what: 'the other target’s calls' })
  expect(called.filter((name) => name === 'hangs')).toHaveLength(2)
  await waitFor(
    () => {
      for (const end of ends.splice(0)) end()
      return worker.report().settled['submitted'] === 25
    },
    { what: 'the end of those that hung' },
  )
  await worker.stop()
})

test('one slot goes from target to target, however many requests came to one of them before', async () => {
  const { once, called, enqueue } = await openWorld()
  await enqueue('flood', 30)
  await enqueue('trickle', 3)
  await once.startWorker({ concurrency: 1, drain: { horizonMs: 0 } }).done
  expect(called.slice(0, 6).filter((name) => name === 'trickle')).toHaveLength(3)
})

test('the more urgent goes first where there is one slot', async () => {
  const { once, called, enqueue } = await openWorld()
  await enqueue('flood', 10)
  await enqueue('trickle', 3, 1)
  await once.startWorker({ concurrency: 1, drain: { horizonMs: 0 } }).done
  expect(called.slice(0, 3)).toEqual(['trickle', 'trickle', 'trickle'])
})

test('a sweep leaves what is ready to others, and ends', async () => {
  const { once, called, enqueue } = await openWorld()
  await enqueue('flood', 3)
  await once.recover({ drain: { horizonMs: 0 } })
  expect(called).toEqual([])
  expect((await once.status()).states).toEqual({ ready: 3 })
})
