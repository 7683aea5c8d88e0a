// Every bad input has its exit code, its code and one sentence on stderr, nothing on stdout, and leaves nothing half done.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { type Ended, NOWHERE, type Workspace, workspace } from '../support/run-cli.ts'

function expectRefusal({ code, stdout, stderr }: Ended, exit: number, errorCode: string): void {
  expect({ code, stdout }, stderr).toEqual({ code: exit, stdout: '' })
  expect(stderr).toMatch(new RegExp(`^error ${errorCode}: \\S`, 'm'))
  expect(stderr).not.toMatch(/^\s+at /m)
  expect(stderr).not.toContain('node:internal')
}

function countRequests(database: string): number {
  const db = new Database(database, { readonly: true })
  try {
    return db.prepare('SELECT count(*) FROM requests').pluck().get() as number
  } finally {
    db.close()
  }
}

describe('the config', () => {
  test('all its faults are told at once, with their fields', async () => {
    const { cli, database } = workspace(
      configFor(NOWHERE, {
        worker: { leaseMs: 'soon' },
        colour: 'red',
        targets: { renders: { submit: { url: undefined } } },
      }),
    )
    const refused = await cli(['enqueue', '--target', 'messages', '--payload', '{}', '--json'])
    expectRefusal(refused, 2, 'CONFIG_INVALID')
    for (const field of ['worker.leaseMs', 'colour', 'targets.renders.submit.url'])
      expect(refused.stderr).toContain(field)
    expect(existsSync(database)).toBe(false)
  })

  test('none, or one that is not there', async () => {
    const { cli } = workspace(null)
    expectRefusal(await cli(['status']), 2, 'CONFIG_NOT_FOUND')
    expectRefusal(await cli(['--config', 'other.yaml', 'status']), 2, 'CONFIG_NOT_FOUND')
  })

  test('one that cannot be parsed', async () => {
    const { cli, write } = workspace(null)
    write('onceish.config.json', '{ "targets": ')
    expectRefusal(await cli(['status']), 2, 'CONFIG_INVALID')
  })
})

describe('the command line', () => {
  test.each([
    [['enqueue', '--target', 'messages', '--payload', '{n}']],
    [['enqueue', '--target', 'messages', '--payload', '{"id":12345678901234567890}']],
    [['enqueue', '--payload', '{}']],
    [['enqueue', '--target', 'messages']],
    [['enqueue', '--target', 'messages', '--payload', '{}', '--file', 'a.ndjson']],
    [['enqueue', '--target', 'messages', '--payload', '{}', '--priority', '32768']],
    [['enqueue', '--target', 'messages', '--payload', '{}', '--run-at', 'tomorrow']],
    [['enqueue', 'requests.ndjson']],
    [['enqueue', '-', '--logical-hash', 'h']],
    [['enqueue', '-', '--on-error', 'continue']],
    [['work', '--drain', '--drain-horizon', '30']],
    [['work', '--drain', '--concurrency', '0']],
    [['recover', '--restored', '--moved']],
    [['show', 'x']],
    [['show', '0']],
    [['show', '9007199254740993']],
    [['retry']],
    [['resolve', '1']],
    [['resolve', '1', '--abandon', '--not-executed']],
    [['resolve', '1', '--task-id', '']],
    [['list', '--limit', '-1']],
    [['frobnicate']],
  ])('%j is a usage error, and makes no database', async (args) => {
    const { cli, database } = workspace()
    expectRefusal(await cli([...args, '--json']), 2, 'USAGE')
    expect(existsSync(database)).toBe(false)
  })

  test('an unknown LOG_LEVEL names the nearest', async () => {
    const refused = await workspace().cli(['migrate'], { env: { LOG_LEVEL: 'warm' } })
    expectRefusal(refused, 2, 'USAGE')
    expect(refused.stderr).toContain('"warn"')
  })

  test('DEBUG=1 shows where', async () => {
    const { code, stderr } = await workspace().cli(['status'], { env: { DEBUG: '1' } })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^\s+at /m)
  })
})

describe('the target', () => {
  test.each([
    [['enqueue', '--target', 'mesages', '--payload', '{}']],
    [['work', '--drain', '--targets', 'renders,mesages']],
    [['pause', 'mesages']],
    [['resume', 'mesages']],
  ])('%j names the nearest, and makes no database', async (args) => {
    const { cli, database } = workspace()
    const refused = await cli(args)
    expectRefusal(refused, 1, 'TARGET_UNKNOWN')
    expect(refused.stderr).toContain('did you mean "messages"?')
    expect(existsSync(database)).toBe(false)
  })

  test('list refuses one that neither the config nor the store has', async () => {
    const { cli } = workspace()
    await cli(['migrate'])
    expectRefusal(await cli(['list', '--target', 'mesages']), 1, 'TARGET_UNKNOWN')
  })

  test.each([
    ['renders', 'work', '--drain'],
    ['renders', 'recover'],
    ['parcels', 'recover', '--dry-run'],
  ])('an unset $env name of %s stops %s %s', async (target, ...args) => {
    const header = { authorization: "{% 'Bearer ' & $env.ONCEISH_TEST_UNSET %}" }
    const { cli, database } = workspace(configFor(NOWHERE, { targets: { [target]: { submit: { headers: header } } } }))
    const refused = await cli([...args, '--json'])
    expectRefusal(refused, 2, 'ENV_MISSING')
    expect(refused.stderr).toContain('ONCEISH_TEST_UNSET')
    expect(existsSync(database)).toBe(false)
  })

  test('an unset $env name of a target that is not served stops nobody', async () => {
    const header = { authorization: '{% $env.ONCEISH_TEST_UNSET %}' }
    const { cli } = workspace(configFor(NOWHERE, { targets: { renders: { submit: { headers: header } } } }))
    expect((await cli(['work', '--drain', '--targets', 'messages'])).code).toBe(0)
  })
})

describe('a request', () => {
  test('a payload that is too large', async () => {
    const { cli, database } = workspace(configFor(NOWHERE, { maxPayloadBytes: 100 }))
    const payload = JSON.stringify({ text: 'x'.repeat(100) })
    expectRefusal(await cli(['enqueue', '--target', 'messages', '--payload', payload]), 1, 'PAYLOAD_TOO_LARGE')
    expect(countRequests(database)).toBe(0)
  })

  test('a payload without a canonical form', async () => {
    const { cli } = workspace()
    expectRefusal(
      await cli(['enqueue', '--target', 'messages', '--payload', '{"a":"\\ud800"}']),
      1,
      'PAYLOAD_NOT_CANONICAL',
    )
  })

  test('the logical hash of another payload', async () => {
    const { cli, database } = workspace()
    const enqueue = (payload: string) =>
      cli(['enqueue', '--target', 'messages', '--logical-hash', 'order-1', '--payload', payload])
    expect((await enqueue('{"n":1}')).code).toBe(0)
    expectRefusal(await enqueue('{"n":2}'), 1, 'LOGICAL_HASH_CONFLICT')
    expect(countRequests(database)).toBe(1)
  })

  test.each([
    ['show', '7'],
    ['retry', '7'],
    ['cancel', '7'],
    ['resolve', '7', '--abandon'],
  ])('%s of an id that does not exist', async (...args) => {
    const { cli } = workspace()
    await cli(['migrate'])
    expectRefusal(await cli(args), 1, 'REQUEST_NOT_FOUND')
  })

  test('a state that does not fit is named', async () => {
    const { cli } = workspace()
    await cli(['enqueue', '--target', 'messages', '--payload', '{}'])
    for (const args of [
      ['retry', '1'],
      ['resolve', '1', '--not-executed'],
    ]) {
      const refused = await cli(args)
      expectRefusal(refused, 1, 'STATE_REFUSED')
      expect(refused.stderr).toContain('request 1 is ready')
    }
  })

  test('a version that has changed since', async () => {
    const { cli } = workspace()
    await cli(['enqueue', '--target', 'messages', '--payload', '{}'])
    expectRefusal(await cli(['resolve', '1', '--abandon', '--if-version', '9']), 1, 'VERSION_CHANGED')
  })
})

describe('lines', () => {
  const good = (n: number) => JSON.stringify({ target: 'messages', payload: { n } })
  const BAD: readonly (readonly [string, string, string])[] = [
    ['broken JSON', '{"target":', 'LINE_INVALID'],
    ['no payload', '{"target":"messages"}', 'LINE_INVALID'],
    ['an unknown field', '{"target":"messages","payload":1,"prioritty":3}', 'LINE_INVALID'],
    ['a number that a double cannot hold', '{"target":"messages","payload":12345678901234567890}', 'LINE_INVALID'],
    ['a lone surrogate', '{"target":"messages","payload":"\\ud800"}', 'PAYLOAD_NOT_CANONICAL'],
    ['an unknown target', '{"target":"mesages","payload":1}', 'TARGET_UNKNOWN'],
    ['a line that is too long', JSON.stringify({ target: 'messages', payload: 'x'.repeat(2000) }), 'PAYLOAD_TOO_LARGE'],
    ['a hash of another payload', '{"target":"messages","payload":1,"logicalHash":"taken"}', 'LOGICAL_HASH_CONFLICT'],
  ]
  const taken = '{"target":"messages","payload":0,"logicalHash":"taken"}'

  function prepared(line: string): Workspace {
    const space = workspace(configFor(NOWHERE, { maxPayloadBytes: 1000 }))
    space.write('requests.ndjson', [taken, good(2), line, good(4), ''].join('\n'))
    return space
  }

  test.each(BAD)(
    'stop: %s ends it, named by its line, and nothing of its transaction stays',
    async (_what, line, code) => {
      const { cli, database } = prepared(line)
      const { code: exit, stdout, stderr } = await cli(['enqueue', '--file', 'requests.ndjson', '--json'])
      expect(exit).toBe(1)
      expect(JSON.parse(stdout)).toEqual({
        enqueued: 0,
        deduplicated: 0,
        skipped: 1,
        errors: [{ line: 3, code, message: expect.any(String) }],
      })
      expect(stderr).toMatch(/^line 3: /m)
      expect(stderr).toMatch(new RegExp(`^error ${code}: .*0 requests before it stay enqueued.*safe`, 'm'))
      expect(stderr).not.toMatch(/^\s+at /m)
      expect(countRequests(database)).toBe(0)
    },
  )

  test.each(BAD)('skip: %s is reported, and every good line stays', async (_what, line, code) => {
    const { cli, database } = prepared(line)
    const {
      code: exit,
      stdout,
      stderr,
    } = await cli(['enqueue', '--file', 'requests.ndjson', '--on-error', 'skip', '--json'])
    expect(exit).toBe(3)
    expect(JSON.parse(stdout)).toMatchObject({ enqueued: 3, deduplicated: 0, skipped: 1, errors: [{ line: 3, code }] })
    expect(stderr).toMatch(/^line 3: /m)
    expect(countRequests(database)).toBe(3)
  })

  test('whole transactions before the bad line stay, and running the mended file again adds only the rest', async () => {
    const { cli, database, write } = workspace()
    const lines = Array.from({ length: 1500 }, (_, n) => good(n))
    write('requests.ndjson', lines.with(1200, 'oops').join('\n'))
    const stopped = await cli(['enqueue', '--file', 'requests.ndjson'])
    expect(stopped).toMatchObject({ code: 1, stdout: '' })
    expect(stopped.stderr).toContain('1000 requests before it stay enqueued')
    expect(countRequests(database)).toBe(1000)
    write('requests.ndjson', lines.join('\n'))
    expect((await cli(['enqueue', '--file', 'requests.ndjson'])).stdout).toBe(
      '500 enqueued, 1000 there already, 0 skipped\n',
    )
  })

  test('a file that is not there, or is a folder, makes no database', async () => {
    const { cli, database, folder } = workspace()
    mkdirSync(join(folder, 'sub'))
    expectRefusal(await cli(['enqueue', '--file', 'none.ndjson', '--json']), 1, 'FILE_UNREADABLE')
    expectRefusal(await cli(['enqueue', '--file', 'sub']), 1, 'FILE_UNREADABLE')
    expect(existsSync(database)).toBe(false)
  })
})

describe('the database', () => {
  test.each([
    ['status'],
    ['list'],
    ['show', '1'],
    ['recover'],
    ['recover', '--dry-run'],
    ['retry', '1'],
    ['pause', 'messages'],
    ['orphans'],
  ])('%s %s needs one that exists', async (...args) => {
    const { cli, database } = workspace()
    expectRefusal(await cli(args), 1, 'STORE_NOT_FOUND')
    expect(existsSync(database)).toBe(false)
  })

  test('one of a newer schema version is left alone', async () => {
    const { cli, database } = workspace()
    await cli(['enqueue', '--target', 'messages', '--payload', '{}'])
    const db = new Database(database)
    db.exec('UPDATE store SET schema_version = 999')
    db.close()
    for (const args of [
      ['status'],
      ['migrate'],
      ['enqueue', '--target', 'messages', '--payload', '1'],
      ['work', '--drain'],
    ]) {
      expectRefusal(await cli(args), 1, 'STORE_SCHEMA_NEWER')
    }
    expect(countRequests(database)).toBe(1)
  })

  test('a file that is no database is left as it is', async () => {
    const { cli, write } = workspace()
    const text = 'dear diary, '.repeat(1000)
    const path = write('diary.txt', text)
    for (const command of ['status', 'migrate'])
      expectRefusal(await cli([command, '--store', 'diary.txt']), 1, 'STORE_NOT_A_DATABASE')
    expect(readFileSync(path, 'utf8')).toBe(text)
  })

  test('a place where nothing can be written', async () => {
    const { cli, write } = workspace()
    write('file', '')
    expectRefusal(await cli(['migrate', '--store', 'file/onceish.db']), 1, 'STORE_UNWRITABLE')
  })

  test('another engine than this version has', async () => {
    expectRefusal(await workspace().cli(['migrate', '--store', 'postgres://127.0.0.1:9/x']), 1, 'STORE_UNREACHABLE')
  })
})
