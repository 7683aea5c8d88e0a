// Each preset against an API that keeps its documented contract: every answer that the preset names leads where it should,
// and a worker that dies between the call and the record makes no second effect.
import { describe, expect, test } from 'vitest'
import { waitFor } from '../support/wait-for.ts'
import { bigquery } from './fakes/bigquery.ts'
import { brevo } from './fakes/brevo.ts'
import { databricks } from './fakes/databricks.ts'
import { githubActions } from './fakes/github-actions.ts'
import { openaiBatches } from './fakes/openai-batches.ts'
import { paypal } from './fakes/paypal.ts'
import { slack } from './fakes/slack.ts'
import { stripe } from './fakes/stripe.ts'
import { twilio } from './fakes/twilio.ts'
import { zuora } from './fakes/zuora.ts'
import type { FakeApi } from './support/fake-api.ts'
import { saved } from './support/preset-case.ts'
import { openPreset } from './support/preset-world.ts'

const PRESETS = [bigquery, brevo, databricks, githubActions, openaiBatches, paypal, slack, stripe, twilio, zuora]

function credentialsOf(fake: FakeApi): string {
  const headers = fake.calls[0]?.headers
  const value = headers?.get('authorization') ?? headers?.get('api-key') ?? ''
  const [scheme, credentials = ''] = value.split(' ')
  return scheme === 'Basic' ? Buffer.from(credentials, 'base64').toString() : value
}

const keysOf = (fake: FakeApi) => new Set(fake.calls.map(({ key }) => key))

describe.each(PRESETS)('$name', (preset) => {
  test('one request is one call and one effect, and the task id is where it is documented', async () => {
    const { once, fake, drain } = await openPreset(preset)
    await drain()
    const taskId = preset.taskId(fake)
    expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId, generation: 1 })
    expect(fake.calls).toHaveLength(1)
    expect(fake.effects).toHaveLength(1)
    expect(fake.calls[0]?.fields).toMatchObject(preset.sent)
  })

  test('the secrets are sent with the call and stored nowhere', async () => {
    const { once, fake, drain } = await openPreset(preset)
    await drain()
    const sent = credentialsOf(fake)
    const stored = JSON.stringify(await once.get(1))
    for (const secret of Object.values(preset.env)) expect(sent).toContain(secret)
    for (const secret of Object.values(preset.env).filter((value) => value.includes('secret')))
      expect(stored).not.toContain(secret)
  })

  test('a worker that dies between the call and the record makes no second effect', async () => {
    const { once, fake, drain, crashAfterCall } = await openPreset(preset)
    await crashAfterCall()
    expect(await once.get(1)).toMatchObject({ state: 'invoking', taskId: null })
    expect(fake.effects).toHaveLength(1)
    await drain()
    const { state, taskId } = preset.afterCrash
    const key = fake.calls[0]?.key ?? null
    expect(await once.get(1)).toMatchObject({
      state,
      taskId: taskId === 'shown' ? preset.taskId(fake) : taskId === 'key' ? key : null,
    })
    expect(fake.effects).toHaveLength(1)
    expect(keysOf(fake)).toEqual(new Set([key]))
  })

  test.each(preset.answers)('an answer that $says', async (answer) => {
    const { once, fake, drain } = await openPreset(preset, answer)
    fake.mishaps = answer.mishaps
    fake.given = answer.given ?? {}
    await drain()
    const { state, reason, taskId, evidence } = answer
    const request = await once.get(1)
    expect(request).toMatchObject({ state, ...(reason && { reason }), ...(taskId && { taskId }) })
    if (evidence !== undefined) expect(request?.taskState?.evidence).toMatchObject(evidence)
    expect({ calls: fake.calls.length, effects: fake.effects.length }).toEqual({
      calls: answer.calls,
      effects: answer.effects ?? 1,
    })
    if (answer.keys !== undefined) expect(keysOf(fake).size).toBe(answer.keys === 'same' ? 1 : answer.calls)
  })

  test.each(preset.tracked ?? [])('a task that the API shows as $given is $state', async ({ given, state }) => {
    const { once, fake } = await openPreset(preset)
    fake.given = given
    const worker = await once.startWorker()
    try {
      await waitFor(async () => (await once.get(1))?.state === state, { what: state })
    } finally {
      await worker.stop()
    }
    expect(fake.calls).toHaveLength(1)
  })
})

test.each([
  [stripe, saved(402, { error: { type: 'card_error', code: 'card_declined' } })],
  [brevo, saved(402, { code: 'not_enough_credits' })],
  [zuora, saved(200, { success: false, reasons: [{ code: 53_100_320 }] })],
])('a failure that $name remembers under the key does not meet the retry of a person', async (preset, failure) => {
  const { once, fake, drain } = await openPreset(preset)
  fake.mishaps = [failure]
  await drain()
  expect(await once.get(1)).toMatchObject({ state: 'dead', generation: 1 })
  await once.retry(1)
  await drain()
  expect(await once.get(1)).toMatchObject({ state: 'submitted', generation: 2 })
  expect(keysOf(fake).size).toBe(2)
  expect(fake.effects).toHaveLength(1)
})
