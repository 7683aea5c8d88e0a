// The fixture itself: each fault does what it says, seen from a raw client, and the oracle counts what happened.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request as httpRequest } from 'undici'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { KINDS, type Kind, type Oracle } from '../../fixtures/api/ledger.ts'
import { loadConfig } from '../../src/config/load-config.ts'
import { parseConfig } from '../../src/config/options.ts'
import { createHttpTarget } from '../../src/target/http/http-target.ts'
import { type Api, configFor, startApi } from './api.ts'
import { tempDir } from './temp-dir.ts'
import { waitFor } from './wait-for.ts'

const SAMPLE_CONFIG = fileURLToPath(new URL('../../fixtures/onceish.config.yaml', import.meta.url))

let api: Api
let lastN = 0

beforeAll(async () => {
  api = await startApi()
})

afterAll(async () => {
  const { unhandled, errors } = await api.oracle()
  await api.stop()
  expect({ unhandled, errors }).toEqual({ unhandled: [], errors: [] })
})

interface Sent {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Readonly<Record<string, unknown>>
}

interface Submission {
  readonly n: number
  readonly key?: string
  readonly fault?: string
  readonly more?: Readonly<Record<string, unknown>>
  readonly signal?: AbortSignal
}

function nextN(): number {
  lastN += 1
  return lastN
}

/** One raw call; rejects where the connection breaks before the head. */
async function call(kind: Kind, submission: Submission, origin = api.origin) {
  const { n, key = `key-${n}`, fault, more = {}, signal } = submission
  const path = kind === 'executions' ? `/v1/executions/${key}` : `/v1/${kind}`
  return httpRequest(origin + path, {
    method: kind === 'executions' ? 'PUT' : 'POST',
    headers: {
      'content-type': 'application/json',
      ...(kind === 'renders' ? { 'idempotency-key': key, authorization: 'Bearer test' } : {}),
    },
    body: JSON.stringify({ n, fault, ...more, ...(kind === 'parcels' ? { reference: key } : {}) }),
    signal: signal ?? null,
  })
}

async function send(kind: Kind, submission: Submission, origin = api.origin): Promise<Sent> {
  const response = await call(kind, submission, origin)
  return { status: response.statusCode, headers: response.headers, body: (await response.body.json()) as Sent['body'] }
}

async function counts(kind: Kind, n: number): Promise<{ calls: number; effects: number }> {
  const { calls, effects } = await api.oracle()
  const ofRequest = (entry: { kind: Kind; n: unknown }) => entry.kind === kind && entry.n === n
  return { calls: calls.filter(ofRequest).length, effects: effects.filter(ofRequest).length }
}

async function listParcels(reference: string): Promise<Sent> {
  const response = await httpRequest(`${api.origin}/v1/parcels?reference=${reference}`)
  return { status: response.statusCode, headers: response.headers, body: (await response.body.json()) as Sent['body'] }
}

describe('the four kinds', () => {
  test('an execution is created once under its name, and then exists', async () => {
    const n = nextN()
    const first = await send('executions', { n })
    const second = await send('executions', { n })
    const { effects } = await api.oracle()
    const effect = effects.find((entry) => entry.kind === 'executions' && entry.n === n)
    expect(first).toMatchObject({ status: 201, body: { name: `key-${n}`, id: effect?.taskId } })
    expect(second).toMatchObject({
      status: 409,
      body: {
        error: { code: 'already_exists' },
        name: `key-${n}`,
        id: effect?.taskId,
        payloadHash: effect?.bodySha256,
      },
    })
    expect(await counts('executions', n)).toEqual({ calls: 2, effects: 1 })
  })

  test('a render under a remembered key is answered again and not made again', async () => {
    const n = nextN()
    const first = await send('renders', { n })
    const second = await send('renders', { n })
    expect(first.headers['idempotent-replayed']).toBeUndefined()
    expect(second).toMatchObject({ status: 201, body: first.body, headers: { 'idempotent-replayed': 'true' } })
    expect(await counts('renders', n)).toEqual({ calls: 2, effects: 1 })
  })

  test('a render under a used key with another body is a mismatch', async () => {
    const n = nextN()
    await send('renders', { n })
    const second = await send('renders', { n, more: { template: 'other' } })
    expect(second).toMatchObject({ status: 422, body: { error: { code: 'idempotency_mismatch' } } })
    expect(await counts('renders', n)).toEqual({ calls: 2, effects: 1 })
  })

  test('a render whose key is in use is refused while the first call runs', async () => {
    const n = nextN()
    const first = send('renders', { n, fault: 'slow:800' })
    await waitFor(async () => (await counts('renders', n)).effects, { what: 'the effect of the first call' })
    // The same bytes as the first call, whose fault does not apply to a second one.
    const second = await send('renders', { n, fault: 'slow:800' })
    expect(second).toMatchObject({ status: 409, body: { error: { code: 'idempotency_key_in_use' } } })
    expect((await first).status).toBe(201)
    expect(await send('renders', { n, fault: 'slow:800' })).toMatchObject({
      headers: { 'idempotent-replayed': 'true' },
    })
    expect(await counts('renders', n)).toEqual({ calls: 3, effects: 1 })
  })

  test('a render whose key was forgotten is made again', async () => {
    const n = nextN()
    onTestFinished(() => api.control({ rememberMs: 86_400_000 }))
    const first = await send('renders', { n })
    await api.control({ rememberMs: 0 })
    const again = await waitFor(
      async () => {
        const answer = await send('renders', { n })
        return answer.headers['idempotent-replayed'] === undefined && answer
      },
      { what: 'the key to be forgotten' },
    )
    expect(again.body.id).not.toBe(first.body.id)
    expect((await counts('renders', n)).effects).toBeGreaterThan(1)
  })

  test('a render without credentials or without a key has no effect', async () => {
    const before = (await api.summary()).renders.effects
    const post = (headers: Record<string, string>) =>
      httpRequest(`${api.origin}/v1/renders`, { method: 'POST', headers, body: JSON.stringify({ n: nextN() }) })
    const withoutCredentials = await post({ 'idempotency-key': 'k' })
    const withoutKey = await post({ authorization: 'Bearer test' })
    await Promise.all([withoutCredentials.body.dump(), withoutKey.body.dump()])
    expect([withoutCredentials.statusCode, withoutKey.statusCode]).toEqual([401, 400])
    expect((await api.summary()).renders.effects).toBe(before)
  })

  test('a parcel is listed by its reference once the lag is over', async () => {
    const n = nextN()
    onTestFinished(() => api.control({ lagMs: 250 }))
    await api.control({ lagMs: 60_000 })
    const parcel = await send('parcels', { n })
    expect((await listParcels(`key-${n}`)).body).toEqual({ data: [], has_more: false })
    await api.control({ lagMs: 0 })
    expect((await listParcels(`key-${n}`)).body).toEqual({
      data: [{ id: parcel.body.id, reference: `key-${n}` }],
      has_more: false,
    })
    const { lookups } = await api.oracle()
    expect(lookups.filter(({ key }) => key === `key-${n}`).map(({ found }) => found)).toEqual([0, 1])
  })

  test('a parcel is made again by every call, and both are listed', async () => {
    const n = nextN()
    onTestFinished(() => api.control({ lagMs: 250 }))
    await api.control({ lagMs: 0 })
    await send('parcels', { n })
    await send('parcels', { n })
    expect((await listParcels(`key-${n}`)).body.data).toHaveLength(2)
    expect(await counts('parcels', n)).toEqual({ calls: 2, effects: 2 })
  })

  test('a parcel that was made can be canceled, another cannot', async () => {
    const { body } = await send('parcels', { n: nextN() })
    const remove = async (id: unknown) => {
      const response = await httpRequest(`${api.origin}/v1/parcels/${id}`, { method: 'DELETE' })
      await response.body.dump()
      return response.statusCode
    }
    expect([await remove(body.id), await remove('prc_none')]).toEqual([200, 404])
    expect((await api.oracle()).cancellations.map(({ taskId }) => taskId)).toContain(body.id)
  })

  test('a message is sent again by every call, as JSON or as a form', async () => {
    const n = nextN()
    const json = await send('messages', { n })
    const form = await httpRequest(`${api.origin}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ To: '+15550100', n: String(n) }).toString(),
    })
    expect(json.status).toBe(201)
    expect(((await form.body.json()) as { sid: string }).sid).not.toBe(json.body.sid)
    expect(await counts('messages', n)).toEqual({ calls: 2, effects: 2 })
  })
})

describe('faults', { timeout: 20_000 }, () => {
  test.each(['reset_after', 'reset_before'])('%s breaks the connection before any head', async (fault) => {
    const n = nextN()
    await expect(call('messages', { n, fault })).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await counts('messages', n)).toEqual({ calls: 1, effects: fault === 'reset_after' ? 1 : 0 })
  })

  test('cut sends the head and half of the body, after the effect', async () => {
    const n = nextN()
    const response = await call('executions', { n, fault: 'cut' })
    const received: Buffer[] = []
    const reading = (async () => {
      for await (const chunk of response.body) received.push(chunk as Buffer)
    })()
    await expect(reading).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
    expect(response.statusCode).toBe(201)
    expect(Buffer.concat(received).toString()).toMatch(/^\{"name":/)
    expect(Buffer.concat(received).length).toBe(Math.floor(Number(response.headers['content-length']) / 2))
    expect(await counts('executions', n)).toEqual({ calls: 1, effects: 1 })
  })

  test('429 has no effect and says how long to wait, once', async () => {
    const n = nextN()
    const limited = await send('renders', { n, fault: '429:7' })
    expect(limited).toMatchObject({ status: 429, headers: { 'retry-after': '7' } })
    expect(await counts('renders', n)).toEqual({ calls: 1, effects: 0 })
    expect((await send('renders', { n, fault: '429:7' })).status).toBe(201)
    expect(await counts('renders', n)).toEqual({ calls: 2, effects: 1 })
  })

  test.each([
    ['502_after', 502, 1],
    ['500_before', 500, 0],
    ['401', 401, 0],
    ['400', 400, 0],
  ])('%s answers %i with %i effects, and only the first call', async (fault, status, effects) => {
    const n = nextN()
    const first = await call('renders', { n, fault })
    await first.body.dump()
    expect(first.statusCode).toBe(status)
    expect(await counts('renders', n)).toEqual({ calls: 1, effects })
    expect((await send('renders', { n, fault })).status).toBe(201)
    expect(await counts('renders', n)).toEqual({ calls: 2, effects: 1 })
  })

  test('a fault that ends in ! meets every call', async () => {
    const n = nextN()
    const answers = [
      await send('parcels', { n, fault: '500_before!' }),
      await send('parcels', { n, fault: '500_before!' }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([500, 500])
    const { calls } = await api.oracle()
    expect(calls.filter((entry) => entry.n === n).map(({ fault }) => fault)).toEqual(['500_before!', '500_before!'])
  })

  test('slow executes at once and answers later', async () => {
    const n = nextN()
    const startedAt = performance.now()
    let answered = false
    const answer = send('messages', { n, fault: 'slow:700' }).finally(() => {
      answered = true
    })
    await waitFor(async () => (await counts('messages', n)).effects, { what: 'the effect' })
    expect(answered).toBe(false)
    expect((await answer).status).toBe(201)
    // Two clocks of two processes: a few milliseconds of grace.
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(690)
  })

  test('slow_before executes later, also for a caller that has left', async () => {
    const n = nextN()
    const leaving = new AbortController()
    const answer = call('messages', { n, fault: 'slow_before:700', signal: leaving.signal })
    await waitFor(async () => (await counts('messages', n)).calls, { what: 'the call' })
    leaving.abort()
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' })
    expect(await counts('messages', n)).toEqual({ calls: 1, effects: 0 })
    await waitFor(async () => (await counts('messages', n)).effects, { what: 'the effect' })
  })

  test('hang_after executes and never answers', async () => {
    const n = nextN()
    const answer = call('messages', { n, fault: 'hang_after', signal: AbortSignal.timeout(300) })
    await expect(answer).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(await counts('messages', n)).toEqual({ calls: 1, effects: 1 })
  })

  test('late_effect resets at once and lands later', async () => {
    const n = nextN()
    await expect(call('parcels', { n, fault: 'late_effect:800' })).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await counts('parcels', n)).toEqual({ calls: 1, effects: 0 })
    expect((await api.oracle()).running).toBeGreaterThan(0)
    await waitFor(async () => (await counts('parcels', n)).effects, { what: 'the late effect' })
  })

  test('a late call under a key that was used meanwhile has no second effect', async () => {
    const n = nextN()
    await expect(call('renders', { n, fault: 'late_effect:500' })).rejects.toThrow()
    expect((await send('renders', { n, fault: 'late_effect:500' })).status).toBe(201)
    await waitFor(async () => (await api.oracle()).running === 0, { what: 'the late call to land' })
    expect(await counts('renders', n)).toEqual({ calls: 2, effects: 1 })
  })

  test('demo faults meet about a quarter of the requests, the same each time, whatever the payload says', async () => {
    const runs = await Promise.all([faultsOfDemoRun(), faultsOfDemoRun()])
    expect(runs[0]).toEqual(runs[1])
    const met = runs[0].filter((fault) => fault !== 'none')
    expect(met.length).toBeGreaterThan(15)
    expect(met.length).toBeLessThan(40)
    expect(new Set(met)).toEqual(new Set(['slow:700', 'cut', 'reset_after', '429:1', '502_after']))
  })
})

async function faultsOfDemoRun(): Promise<string[]> {
  const demo = await startApi({ faults: 'demo' })
  onTestFinished(() => demo.stop())
  const numbers = Array.from({ length: 100 }, (_, index) => index + 1)
  await Promise.allSettled(numbers.map((n) => send('messages', { n, fault: '400' }, demo.origin)))
  const { calls } = await demo.oracle()
  return [...calls].sort((a, b) => Number(a.n) - Number(b.n)).map(({ fault }) => fault)
}

describe('control', () => {
  test('down answers 503 to every call, without an effect', async () => {
    const n = nextN()
    onTestFinished(() => api.control({ down: false }))
    await api.control({ down: true })
    const statuses = [(await send('executions', { n })).status, (await listParcels('any')).status]
    expect(statuses).toEqual([503, 503])
    expect(await counts('executions', n)).toEqual({ calls: 1, effects: 0 })
  })

  test('a held call is executed and answered only when it is released', async () => {
    const n = nextN()
    await api.control({ holdNext: { kind: 'messages', n } })
    let answered = false
    const answer = send('messages', { n }).then((sent) => {
      answered = true
      return sent
    })
    await waitFor(async () => (await api.oracle()).held === 1, { what: 'the call to be held' })
    expect(await counts('messages', n)).toEqual({ calls: 1, effects: 1 })
    expect(answered).toBe(false)
    await api.control({ release: true })
    expect((await answer).status).toBe(201)
    expect((await api.oracle()).held).toBe(0)
  })

  test('an unknown setting is refused', async () => {
    await expect(api.control({ lagMS: 1 } as never)).rejects.toThrow('lagMS')
  })
})

describe('the oracle', { timeout: 20_000 }, () => {
  test('counts requests, calls, effects and duplicates of each kind', async () => {
    const counting = await startApi()
    onTestFinished(() => counting.stop())
    for (const n of [1, 1, 2]) await send('messages', { n }, counting.origin)
    for (const n of [3, 3]) await send('executions', { n }, counting.origin)
    expect(await counting.summary()).toEqual({
      executions: { requests: 1, effects: 1, duplicates: 0, calls: 2 },
      renders: { requests: 0, effects: 0, duplicates: 0, calls: 0 },
      parcels: { requests: 0, effects: 0, duplicates: 0, calls: 0 },
      messages: { requests: 2, effects: 3, duplicates: 1, calls: 3 },
    })
  })

  test('gives every effect a task id of its own', async () => {
    const { effects } = await api.oracle()
    expect(new Set(effects.map(({ taskId }) => taskId)).size).toBe(effects.length)
  })

  test('writes each effect to the journal before the answer', async () => {
    const journal = join(tempDir(), 'effects.ndjson')
    const journaled = await startApi({ journal })
    onTestFinished(() => journaled.stop())
    await send('messages', { n: 1 }, journaled.origin)
    const lines = readFileSync(journal, 'utf8').trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line))).toEqual((await journaled.oracle()).effects)
  })

  test('notes a route that nobody serves and a fault that nobody knows', async () => {
    const noting = await startApi()
    onTestFinished(() => noting.stop())
    const unserved = await httpRequest(`${noting.origin}/v2/renders`)
    const misspelt = await call('messages', { n: 1, fault: 'slo:1' }, noting.origin)
    await Promise.all([unserved.body.dump(), misspelt.body.dump()])
    expect([unserved.statusCode, misspelt.statusCode]).toEqual([501, 500])
    const oracle: Oracle = await noting.oracle()
    expect(oracle.unhandled).toEqual(['GET /v2/renders'])
    expect(oracle.errors[0]).toContain('slo:1')
  })
})

describe('the process', () => {
  test('ends when its stdin closes, as it does when the parent is killed', async () => {
    const child = spawn(process.execPath, ['--import', 'jiti/register', 'fixtures/api/main.ts', '--port', '0'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    const exit = once(child, 'exit')
    child.stdin.end()
    expect(await exit).toEqual([0, null])
  })

  test('ends by SIGTERM, and stopping it twice is the same', async () => {
    const ending = await startApi()
    await ending.stop()
    await ending.stop()
    await expect(ending.oracle()).rejects.toThrow()
  })
})

describe('the sample requests', () => {
  test('are a hundred of each kind, each with a number of its own and a priority of 0 to 9', () => {
    const requests = KINDS.flatMap((kind) => {
      const file = new URL(`../../fixtures/requests/${kind}.ndjson`, import.meta.url)
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
      const parsed = lines.map(
        (line) => JSON.parse(line) as { target: string; payload: { n: number }; priority: number },
      )
      expect(parsed.map(({ target }) => target)).toEqual(Array(100).fill(kind))
      return parsed
    })
    expect(new Set(requests.map(({ payload }) => payload.n)).size).toBe(400)
    expect(new Set(requests.map(({ priority }) => priority))).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]))
  })
})

describe('the configs', () => {
  test('are accepted as they are, the one for tests and the one for readers', async () => {
    const targets = ['executions', 'renders', 'parcels', 'messages']
    const forTests = parseConfig(configFor(api.origin), { path: 'test', baseDir: tempDir() })
    const forReaders = await loadConfig({ file: SAMPLE_CONFIG })
    expect(Object.keys(forTests.targets)).toEqual(targets)
    expect(Object.keys(forReaders.targets)).toEqual(targets)
  })

  test('describe calls that the API takes and answers whose task id can be read', async () => {
    const raw = configFor(api.origin)
    const { targets } = parseConfig(raw, { path: 'test', baseDir: tempDir() })
    for (const definition of Object.values(targets)) {
      const n = nextN()
      const target = createHttpTarget(definition, { env: {} })
      onTestFinished(() => target.close())
      const key = target.keyFor({ namespace: 'test', logicalHash: `hash-${n}`, generation: 1 })
      const request = { requestId: n, logicalHash: `hash-${n}`, generation: 1, priority: 0 }
      const input = { payload: JSON.stringify({ n }), key, request }
      const outcome = await target.invoke(target.prepare(input), { input, gate: () => null })
      const { effects } = await api.oracle()
      const effect = effects.find((entry) => entry.n === n)
      expect(effect, target.name).toMatchObject({ kind: target.name, key })
      expect(outcome).toMatchObject({ kind: 'accepted', taskId: effect?.taskId })
    }
  })

  test('takes overrides into single fields and takes fields out', () => {
    const config = configFor('http://127.0.0.1:1', {
      targets: { renders: { idempotency: { rememberedFor: '3s' }, outcomes: undefined }, messages: undefined },
    }) as { targets: Record<string, { idempotency?: object; outcomes?: unknown }> }
    expect(Object.keys(config.targets)).toEqual(['executions', 'renders', 'parcels'])
    expect(config.targets.renders?.idempotency).toMatchObject({ header: 'Idempotency-Key', rememberedFor: '3s' })
    expect(config.targets.renders).not.toHaveProperty('outcomes')
  })
})
