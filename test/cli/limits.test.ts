// What people and programs see of limits: pauses that an API told, of a target or of a bucket, and parked requests.
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { openFakeApi } from '../support/counting-api.ts'
import { linesOf, NOWHERE, workspace } from '../support/run-cli.ts'

const told = (seconds: number) => ({ status: 429, headers: { 'retry-after': String(seconds) }, body: '' })

/** Two targets of one account, whose API has told the first to wait. */
async function openTold(seconds: number, rampMs: number | string = '24s') {
  const api = await openFakeApi({ kind: 'opaque' })
  const target = {
    submit: { url: api.url },
    taskId: '{% $response.body.id %}',
    limits: { concurrency: 1, rate: '20/s', bucket: 'account' },
    rateLimit: { rampMs },
  }
  const buckets = { account: { concurrency: 40 } }
  const space = workspace({
    buckets,
    targets: { images: target, videos: { ...target, limits: { bucket: 'account' } } },
  })
  const enqueue = (name: string, payload: number) =>
    space.json(['enqueue', '--target', name, '--payload', String(payload)])
  for (const payload of [1, 2]) await enqueue('images', payload)
  api.failNext(told(seconds))
  const begunAt = Date.now()
  const { code } = await space.cli(['work', '--drain'])
  await enqueue('videos', 3)
  return { ...space, api, code, begunAt }
}

interface Told {
  readonly targets: Record<string, { waits: readonly { until: number }[]; parked: number; parkedUntil: number }>
}

test('status and targets show a pause: whom it stops, until when, told by what, since when, and that nobody need act', async () => {
  const { cli, json, api, code, begunAt } = await openTold(7200)
  // It lies beyond what a drain waits for, and waits for no person.
  expect({ code, calls: api.calls.length }).toEqual({ code: 0, calls: 1 })
  const { targets } = await json<Told>(['status'])
  const waits = [
    {
      scope: 'bucket',
      name: 'account',
      cause: 'told_to_wait',
      toldBy: 'retry-after: 7200',
      since: expect.any(Number),
      until: expect.any(Number),
      rampUntil: expect.any(Number),
      begun: 0,
    },
  ]
  expect(targets['images']).toMatchObject({ paused: false, waits })
  expect(targets['videos']).toMatchObject({ paused: false, waits })
  expect(targets['images']?.waits[0]?.until).toBeGreaterThanOrEqual(begunAt + 7_200_000)
  const { stdout } = await cli(['status'])
  expect(stdout).toMatch(/^images .*told to wait$/m)
  expect(stdout).toMatch(/^bucket account +retry-after: 7200 +.*waits until \d{4}-.* \(in [12]h\)$/m)
  expect(stdout).toMatch(/^1 request of images parked, the first goes on \d{4}-.*: onceish list --reason parked$/m)
  const described = linesOf((await cli(['targets', '--json'])).stdout)
  expect(described).toMatchObject([
    { limits: { concurrency: 1, rate: { count: 20, perMs: 1000, burst: 2 }, bucket: 'account' }, waits },
    { limits: { concurrency: null, rate: null, bucket: 'account' }, waits },
  ])
  const shown = (await cli(['targets'])).stdout
  expect(shown).toMatch(/limits +1 at once; 20 in 1s, 2 in a burst; shares the bucket account$/m)
  expect(shown).toMatch(/state +waits until .* \(bucket account\), told .* by retry-after: 7200/m)
})

test('a parked request is listed with why and when it goes on, and show says the same; one that was told nothing waits with its target', async () => {
  const { cli, json } = await openTold(7200)
  const { targets } = await json<Told>(['status'])
  const [parked, ...others] = linesOf((await cli(['list', '--reason', 'parked', '--json'])).stdout)
  expect(others).toEqual([])
  expect(parked).toMatchObject({ requestId: 1, state: 'scheduled', attempts: 0, dueAt: targets['images']?.parkedUntil })
  expect((await cli(['list', '--reason', 'parked'])).stdout).toMatch(
    /^ *1 +images +scheduled .*in [12]h +parked: HTTP 429$/m,
  )
  const { stdout } = await cli(['show', '1'])
  expect(stdout).toMatch(
    /why +parked: HTTP 429: the API told it to wait for longer than rateLimit.maxWaitMs; it goes on by itself/,
  )
  expect(stdout).toMatch(/not before +\d{4}-.*\(in [12]h\)/)
  expect((await json(['show', '2']))['outlook']).toMatchObject({
    by: 'worker',
    step: 'call',
    at: targets['images']?.waits[0]?.until,
    why: 'the API told its bucket to wait (retry-after: 7200)',
  })
})

test('resume ends a wait that the API told: calls begin again slowly, and status shows how', async () => {
  const { cli } = await openTold(7200, '10h')
  expect((await cli(['resume', 'videos'])).stdout).toBe('videos is resumed\n')
  const { stdout } = await cli(['status'])
  expect(stdout).toMatch(/^bucket account .*ramping up, at 10 % of the limit \(0 calls so far\), over in 9h$/m)
  expect(stdout).toMatch(/^videos .*ramping up$/m)
})

test('after it what waited is called, and what was told itself when it was told to', async () => {
  const { cli, json, api } = await openTold(7200, '1s')
  await cli(['resume', 'videos'])
  await json(['work', '--drain'])
  expect(api.effects).toHaveLength(2)
  expect(await json(['status'])).toMatchObject({ states: { submitted: 2, scheduled: 1 } })
})

test('a wait that is over is shown no more, also where no worker has been there since', async () => {
  const { cli, json, database } = workspace({
    targets: { job: { submit: { url: NOWHERE }, taskId: 'none' } },
  })
  await json(['enqueue', '--target', 'job', '--payload', '1'])
  const db = new Database(database)
  db.exec(`INSERT INTO timed_pauses VALUES ('target', 'job', 'told_to_wait', 1000, 2000, 'retry-after: 1', 24000, 0)`)
  db.close()
  expect((await json<Told>(['status'])).targets['job']?.waits).toEqual([])
  expect((await cli(['status'])).stdout).not.toContain('retry-after')
  expect((await cli(['targets'])).stdout).toMatch(/state +in service$/m)
})
