import { expect, onTestFinished, test } from 'vitest'
import type { z } from 'zod'
import { defineTarget, openOnceish } from '../../src/index.ts'
import { tempDir } from '../support/temp-dir.ts'

async function open(payload: z.ZodType) {
  const invoke = () => ({ taskId: 'none is called' })
  const target = defineTarget({ name: 'slow', version: '1', payload, invoke })
  const once = await openOnceish({ store: `${tempDir()}/jobs.db`, targets: [target] })
  onTestFinished(() => once.close())
  return once
}

/** It takes time for some payloads, and not for others. */
const SOMETIMES_LATE = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value: unknown) => {
      const verdict = Number(value) < 0 ? { issues: [{ message: 'below zero' }] } : { value }
      return Math.abs(Number(value)) % 2 === 1 ? Promise.resolve(verdict) : verdict
    },
  },
} as unknown as z.ZodType

test('schemas that take time for some payloads keep all in their order', async () => {
  const once = await open(SOMETIMES_LATE)
  const enqueued = await once.enqueueMany([0, 1, 2, 3, 4].map((payload) => ({ target: 'slow', payload })))
  expect(enqueued.map(({ requestId }) => requestId)).toEqual([1, 2, 3, 4, 5])
  expect((await once.get(4))?.payload).toBe(3)
})

test.each([
  ['at once', [-1, 1, -2]],
  ['late', [-1, 1, 2]],
])('where one is refused %s nothing is written, and no other verdict is left unheard', async (_when, payloads) => {
  const once = await open(SOMETIMES_LATE)
  const refused = once.enqueueMany(payloads.map((payload) => ({ target: 'slow', payload })))
  await expect(refused).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' })
  expect(await once.list()).toEqual([])
})
