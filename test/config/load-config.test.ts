import { writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { assertEnvSet, neededEnv, readEnvironment } from '../../src/config/environment.ts'
import { loadConfig, parseConfig } from '../../src/config/load-config.ts'
import { type ErrorCode, isOnceishError } from '../../src/core/errors.ts'
import { tempDir } from '../support/temp-dir.ts'

/** README's example. */
const EXAMPLE = `
store: ./onceish.db
worker: { concurrency: 64, leaseMs: 60000, graceMs: 25000 }
targets:
  transcribe:
    submit:
      method: POST
      url: https://api.example.com/v1/jobs
      headers: { authorization: "{% 'Bearer ' & $env.API_KEY %}" }
      body: "{% $payload %}"
      timeoutMs: 30000
    idempotency: { header: Idempotency-Key, format: uuid, rememberedFor: 24h, margin: 1h, failedFirst: replayed }
    taskId: "{% $response.body.id %}"
    outcomes:
      - when: "{% $response.status = 409 and $response.body.code = 'in_use' %}"
        is: in_flight
    lookup:
      url: "https://api.example.com/v1/jobs?ref={% $key %}"
      taskId: "{% $response.body.data.id %}"
      complete: "{% $response.body.has_more = false %}"
      settleMs: 120000
      misses: 2
      missMeans: absent
      remembers: 7d
    recovery: [lookup, replay, hold]
    retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300000 }
    limits: { concurrency: 8, rate: 10/s }
    rateLimit: { statuses: [429], headers: [Retry-After] }
    cancel: { method: DELETE, url: "https://api.example.com/v1/jobs/{% $taskId %}" }
    status:
      url: "https://api.example.com/v1/jobs/{% $taskId %}"
      state: "{% $response.body.status %}"
      succeeded: [done]
      failed: [error]
      pending: [queued, running]
      everyMs: 5000
`

let cwd: string
beforeEach(() => {
  cwd = tempDir()
})

function write(name: string, text: string): string {
  const path = join(cwd, name)
  writeFileSync(path, text)
  return path
}

async function expectError(loading: Promise<unknown>, code: ErrorCode, ...texts: (string | RegExp)[]): Promise<void> {
  const error = await loading.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!isOnceishError(error)) throw new Error(`expected ${code}`, { cause: error })
  expect(error.code).toBe(code)
  for (const text of texts) expect(error.message).toMatch(text)
}

describe('finding the file', () => {
  test('takes the one config in the directory', async () => {
    const path = write('onceish.config.yml', EXAMPLE)
    const config = await loadConfig({ cwd })
    expect(config.path).toBe(path)
    expect(config.store).toBe(join(cwd, 'onceish.db'))
    expect(config.targets['transcribe']).toMatchObject({
      name: 'transcribe',
      recovery: ['lookup', 'replay', 'hold'],
      idempotency: { rememberedForMs: 86_400_000, marginMs: 3_600_000, failedFirst: 'replayed' },
      lookup: { settleMs: 120_000, everyMs: 120_000, missMeans: 'absent', remembersMs: 604_800_000 },
      limits: { concurrency: 8, rate: { count: 10, perMs: 1000, burst: 1 } },
    })
  })

  test('several are refused by name', async () => {
    write('onceish.config.yaml', EXAMPLE)
    write('onceish.config.json', '{}')
    await expectError(loadConfig({ cwd }), 'CONFIG_INVALID', 'onceish.config.json, onceish.config.yaml')
  })

  test('none says how to get one', async () => {
    await expectError(loadConfig({ cwd }), 'CONFIG_NOT_FOUND', /`onceish init`/)
    await expectError(loadConfig({ cwd, file: 'x.yaml' }), 'CONFIG_NOT_FOUND', join(cwd, 'x.yaml'), /`onceish init`/)
  })

  test('what cannot be read is named', async () => {
    await expectError(loadConfig({ cwd: join(cwd, 'nowhere') }), 'CONFIG_UNREADABLE', 'nowhere')
    await expectError(loadConfig({ cwd, file: 'x.toml' }), 'CONFIG_INVALID', /must end in \.yaml/)
  })
})

describe('reading it', () => {
  test('JSON is read', async () => {
    write('onceish.config.json', '{\n\t"store": "sub/x.db"\n}')
    expect((await loadConfig({ cwd })).store).toBe(join(cwd, 'sub/x.db'))
  })

  test.each(['export default', 'export const config ='])('TypeScript with `%s` is run', async (head) => {
    write('onceish.config.ts', `type T = string\nconst store: T = './typed.db'\n${head} { store }\n`)
    expect((await loadConfig({ cwd })).store).toBe(join(cwd, 'typed.db'))
  })

  test.each(['js', 'mjs'])('JavaScript (%s) is run', async (extension) => {
    write(`onceish.config.${extension}`, `export default { store: './plain.db' }\n`)
    expect((await loadConfig({ cwd })).store).toBe(join(cwd, 'plain.db'))
  })

  test('code that throws is named', async () => {
    const path = write('onceish.config.ts', `throw new Error('no luck')\n`)
    await expectError(loadConfig({ cwd }), 'CONFIG_UNREADABLE', path, /no luck/)
  })

  test('a syntax error is told with file, line and column', async () => {
    const path = write('onceish.config.yaml', 'store: x\nworker: { concurrency: 1\ntargets: {}\n')
    await expectError(loadConfig({ cwd }), 'CONFIG_INVALID', new RegExp(`${path}:\\d+:\\d+: \\S+`))
    write('onceish.config.yaml', 'store: x\nstore: y\n')
    await expectError(loadConfig({ cwd }), 'CONFIG_INVALID', `${path}:2:1: Map keys must be unique`)
  })

  test('faults are told with the file', async () => {
    const path = write('onceish.config.yaml', 'store: 5\nworkers: {}\n')
    await expectError(loadConfig({ cwd }), 'CONFIG_INVALID', `${path} has 2 faults:`, /^store: expected text, got 5$/m)
    await expectError(loadConfig({ cwd }), 'CONFIG_INVALID', /^workers: unknown key; did you mean "worker"\?$/m)
  })

  test('an empty file is all defaults', async () => {
    const path = write('onceish.config.yaml', '')
    expect(await loadConfig({ cwd })).toEqual({
      path,
      buckets: {},
      codeTargets: {},
      payloads: {},
      store: join(cwd, 'onceish.db'),
      namespace: null,
      maxPayloadBytes: 1_048_576,
      worker: {
        name: hostname(),
        concurrency: 64,
        leaseMs: 60_000,
        graceMs: 25_000,
        stateFolder: join(cwd, '.onceish'),
      },
      targets: {},
    })
  })
})

describe('the store', () => {
  test('given beside the config is relative to where one is', async () => {
    const file = write('onceish.config.yaml', 'store: a.db')
    expect((await loadConfig({ file, cwd: '/somewhere', store: 'b.db' })).store).toBe('/somewhere/b.db')
    expect((await loadConfig({ file, cwd: '/somewhere' })).store).toBe(join(cwd, 'a.db'))
  })

  test('may be a PostgreSQL URL', async () => {
    const store = 'postgres://localhost/onceish'
    expect(parseConfig({ store }, { path: null, baseDir: cwd }).store).toBe(store)
  })
})

test('a config is frozen to its depth', () => {
  const raw = { targets: { t: { submit: { url: 'https://a.example/' }, taskId: 'none' } } }
  const config = parseConfig(raw, { path: null, baseDir: cwd })
  expect(Object.isFrozen(config.targets['t']?.submit.body)).toBe(true)
  expect(Object.isFrozen(raw.targets.t)).toBe(false)
})

describe('the environment', () => {
  const header = (name: string) => ({ authorization: `{% 'Bearer ' & $env.${name} %}` })
  const target = (name: string) => ({
    submit: { url: 'https://a.example/', headers: header(name) },
    cancel: { url: 'https://a.example/', headers: header('SHARED') },
    taskId: 'none',
  })
  const config = parseConfig({ targets: { a: target('A'), b: target('B') } }, { path: null, baseDir: '/' })

  test('its needed names are known before any call', () => {
    expect(neededEnv(config)).toEqual(['A', 'B', 'SHARED'])
    expect(neededEnv(config, ['b'])).toEqual(['B', 'SHARED'])
  })

  test('a missing or empty name is told with target and field', () => {
    expect(() => assertEnvSet(config, { A: 'x', B: 'y', SHARED: 'z' })).not.toThrow()
    expect(() => assertEnvSet(config, { A: 'x', SHARED: 'z' }, ['a'])).not.toThrow()
    const check = () => assertEnvSet(config, { A: '', B: 'y', SHARED: 'z' })
    expect(check).toThrow(/A \(needed by targets\.a\.submit\.headers\.authorization\)/)
    expect(check).toThrow(expect.objectContaining({ code: 'ENV_MISSING', details: { names: ['A'] } }))
  })

  test('is read as a snapshot', () => {
    expect(readEnvironment()['PATH']).toBe(process.env['PATH'])
    expect(Object.isFrozen(readEnvironment())).toBe(true)
  })
})
