// What a worker says at the default level: who is needed and what for, and which targets nobody calls for a while.

import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Log } from '../../src/core/log.ts'
import { httpTarget } from '../../src/index.ts'
import { type FakeFault, openForTest, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'

type Target = Partial<Parameters<typeof httpTarget>[0]>

/** Of one target called `job`, at an API that fails as told. */
async function linesOf(faults: readonly FakeFault[], given: Target = {}, requests = 1): Promise<string[]> {
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'opaque', clock })
  for (const fault of faults) api.failNext(fault)
  const lines: string[] = []
  const silent = () => {}
  const log: Log = {
    debug: silent,
    info: silent,
    warn: (_, line) => lines.push(line),
    error: (_, line) => lines.push(line),
  }
  const target = httpTarget({ name: 'job', submit: { url: api.url }, taskId: '{% $response.body.id %}', ...given })
  const once = await openForTest({ store: join(tempDir(), 'jobs.db'), targets: [target], clock, log })
  onTestFinished(() => once.close())
  for (let n = 0; n < requests; n++) await once.enqueue({ target: 'job', payload: { n } })
  await clock.runUntil(once.startWorker({ ...DRAIN, concurrency: 1 }).done)
  return lines
}

const answer = (status: number, headers = {}) => ({ status, headers, body: {} })

test('a target whose credentials are refused is told once, with the steps in their order', async () => {
  expect(await linesOf([answer(401)], {}, 3)).toEqual([
    'job is paused (blocked: HTTP 401): the API refused the credentials; mend the key, restart every worker, then "onceish resume job"',
  ])
})

test('what is held or dead says why, and where to look', async () => {
  expect(await linesOf(['reset-after-effect', answer(400)], {}, 2)).toEqual([
    expect.stringMatching(/^request 1 of job is held: the API can be asked nothing.*: onceish show 1$/),
    expect.stringMatching(/^request 2 of job is dead: the API refused it for good.*: onceish show 2$/),
  ])
})

test('a breaker that opens names its cure, and that it closed is told too', async () => {
  const breaker = { failures: 2, probeAfter: '1s' }
  const outcomes = [{ when: '{% $response.status = 503 %}', is: 'not_executed' }] as const
  expect(await linesOf([answer(503), answer(503)], { breaker, outcomes } as unknown as Target, 2)).toEqual([
    expect.stringMatching(/^the calls to job fail \(.*"onceish resume job" when you have mended it sooner$/),
    'job answers again: calls begin slowly',
  ])
})

test('told waits are told once a minute, and of a target with a rate that meets them again and again what helps, once in a while', async () => {
  const told = answer(429, { 'retry-after': '1' })
  const limits = { rate: '10/s' }
  const rateLimit = { rampMs: '1s' }
  const lines = await linesOf([told, told, told, told], { limits, rateLimit } as unknown as Target)
  // The others within the minute are told at info.
  expect(
    lines.filter((line) => /^job told to wait \(retry-after: 1\): nobody calls it before /.test(line)),
  ).toHaveLength(1)
  expect(
    lines.filter((line) => /^job was told to wait 3 times within \d+ s.*about 80 % of what/.test(line)),
  ).toHaveLength(1)
  // Without a rate there is nothing to lower.
  expect((await linesOf([told, told, told, told], { rateLimit } as unknown as Target)).join()).not.toContain('80 %')
})
