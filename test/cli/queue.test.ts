// Enqueue, look, pause and cancel: shapes of --json, and what people read.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { linesOf, MAIN, NOWHERE, startCli, workspace } from '../support/run-cli.ts'

const MESSAGE = ['enqueue', '--target', 'messages', '--payload']

describe('enqueue', () => {
  test('one request is queued, and found again', async () => {
    const { json, cli } = workspace()
    const hash = expect.stringMatching(/^v1:[0-9a-f]{64}$/)
    expect(await json([...MESSAGE, '{"a":1,"b":2}'])).toEqual({
      requestId: 1,
      target: 'messages',
      state: 'ready',
      taskId: null,
      logicalHash: hash,
      deduplicated: false,
    })
    expect(await json([...MESSAGE, '{"b":2,"a":1}'])).toMatchObject({ requestId: 1, deduplicated: true })
    expect((await cli([...MESSAGE, '{"a":1,"b":2}'])).stdout).toBe(
      'request 1 was there already: ready; nothing was added\n',
    )
  })

  test('global options may stand before the command, and --store overrides the config', async () => {
    const { cli } = workspace()
    const { code, stdout } = await cli(['--json', '--store', 'other.db', ...MESSAGE, '{}'])
    expect({ code, state: JSON.parse(stdout).state }).toEqual({ code: 0, state: 'ready' })
    expect((await cli(['status', '--store', 'other.db'])).code).toBe(0)
    expect((await cli(['status'])).code).toBe(1)
  })

  test('priority, due time and hash are kept', async () => {
    const { json } = workspace()
    const options = ['--priority', '-7', '--run-at', '2999-01-01T00:00:00Z', '--logical-hash', 'mine']
    expect(await json([...MESSAGE, '{}', ...options])).toMatchObject({ state: 'scheduled', logicalHash: 'mine' })
    expect(await json(['show', '1'])).toMatchObject({ priority: -7, dueAt: Date.parse('2999-01-01T00:00:00Z') })
  })

  test('lines come from stdin, and --target is for those that name none', async () => {
    const { cli, json } = workspace()
    const stdin = '{"payload":1}\n\n{"target":"renders","payload":2}\n{"payload":1}\n'
    const { code, stdout } = await cli(['enqueue', '-', '--target', 'messages', '--json'], { stdin })
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({ enqueued: 2, deduplicated: 1, skipped: 0, errors: [] })
    expect(await json(['status'])).toMatchObject({
      targets: { messages: { states: { ready: 1 } }, renders: { states: { ready: 1 } } },
    })
  })
})

describe('status', () => {
  test('its JSON has the counts, every target and what needs a person', async () => {
    const { json, database } = workspace()
    for (const n of [1, 2]) await json([...MESSAGE, String(n)])
    await json(['cancel', '2'])
    await json(['pause', 'renders', '--reason', 'maintenance'])
    const db = new Database(database)
    db.exec(`UPDATE ready SET target = 'gone'; UPDATE requests SET target = 'gone' WHERE request_id = 1`)
    db.close()
    const told = {
      expired: 0,
      oldestReady: [],
      groups: { ready: 0, longest: [], headsOnly: false, oldest: null },
      waits: [],
      breaker: null,
      parked: 0,
      parkedUntil: null,
      stuck: 0,
    }
    const open = { states: {}, paused: false, pausedAt: null, pausedBy: null, pauseReason: null, ...told }
    expect(await json(['status'])).toEqual({
      states: { ready: 1, canceled: 1 },
      targets: {
        executions: open,
        parcels: open,
        messages: { ...open, states: { canceled: 1 } },
        renders: {
          states: {},
          paused: true,
          pausedAt: expect.any(Number),
          pausedBy: expect.stringMatching(/^cli:/),
          pauseReason: 'maintenance',
          ...told,
        },
        gone: { ...open, states: { ready: 1 }, oldestReady: [{ priority: 0, since: expect.any(Number) }] },
      },
      oldestReady: expect.any(Number),
      oldestUnknown: null,
      held: 0,
      dead: 0,
      expired: 0,
      unroutable: 1,
      orphans: 0,
      stuck: 0,
      stuckKeys: [],
      origin: 'own',
    })
  })

  test('people read a table, the pause and the command that ends it', async () => {
    const { cli } = workspace()
    await cli([...MESSAGE, '1'])
    await cli(['pause', 'messages', '--reason', 'they\u001b[2J are down'])
    const { code, stdout } = await cli(['status'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^messages +1 +paused$/m)
    expect(stdout).toMatch(/they\\u001b\[2J are down.*onceish resume messages$/m)
    expect((await cli(['resume', 'messages'])).stdout).toBe('messages is resumed\n')
    expect((await cli(['resume', 'messages'])).stdout).toBe('messages was not paused: nothing was changed\n')
  })
})

describe('list and show', () => {
  test('a list is one JSON object a line', async () => {
    const { cli } = workspace()
    for (const n of [1, 2, 3]) await cli([...MESSAGE, String(n), '--priority', String(n)])
    const { stdout } = await cli(['list', '--json', '--limit', '2', '--target', 'messages'])
    expect(linesOf(stdout)).toMatchObject([
      { requestId: 1, target: 'messages', state: 'ready', taskId: null, priority: 1, attempts: 0, lastError: null },
      { requestId: 2, priority: 2 },
    ])
    expect((await cli(['list', '--state', 'held', '--json'])).stdout).toBe('')
    expect((await cli(['list', '--state', 'held'])).stdout).toBe('no requests\n')
  })

  test('a list that ends at its bound says so, and its help says which one', async () => {
    const { cli, write } = workspace()
    const lines = Array.from({ length: 101 }, (_, n) => JSON.stringify({ target: 'messages', payload: { n } }))
    write('many.ndjson', lines.join('\n'))
    await cli(['enqueue', '--file', 'many.ndjson'])
    expect((await cli(['list'])).stdout).toMatch(/\n100 requests\n\nthe first 100; --limit N for more\n$/)
    expect(await cli(['list', '--json'])).toMatchObject({ stderr: 'the first 100; --limit N for more\n' })
    expect((await cli(['list', '--limit', '101'])).stdout).toMatch(/\n101 requests\n$/)
    expect((await cli(['list', '--help'])).stdout).toMatch(/--limit <n> +at most so many; 100 unless said/)
  })

  test('rows of a target that the config has dropped are still listed', async () => {
    const { cli, write } = workspace()
    await cli([...MESSAGE, '1'])
    write('onceish.config.json', JSON.stringify(configFor(NOWHERE, { targets: { messages: undefined } })))
    expect(linesOf((await cli(['list', '--target', 'messages', '--json'])).stdout)).toHaveLength(1)
    expect((await cli(['status'])).stdout).toMatch(/1 row of targets that the config does not name \(messages\)/)
  })

  test('show tells the time line', async () => {
    const { cli, json } = workspace()
    await cli([...MESSAGE, '{"n":1}'])
    await cli(['cancel', '1', '--note', 'ordered twice'])
    expect(await json(['show', '1'])).toMatchObject({
      requestId: 1,
      state: 'canceled',
      payload: { n: 1 },
      events: [{ kind: 'canceled', actor: expect.stringMatching(/^cli:/), reason: 'ordered twice' }],
    })
    expect((await cli(['show', '1'])).stdout).toMatch(
      /time line:\n.*\n.*enqueued +ready.*\n.*canceled +ready -> canceled +.*"ordered twice"/,
    )
  })

  test('a reader that has seen enough ends it quietly', async () => {
    const { cli, folder, write } = workspace()
    write(
      'many.ndjson',
      Array.from({ length: 5000 }, (_, n) => JSON.stringify({ target: 'messages', payload: { n } })).join('\n'),
    )
    await cli(['enqueue', '--file', 'many.ndjson'])
    const command = `"$0" "$1" list --limit 5000 --json | head -n 1; echo "\${PIPESTATUS[0]}"`
    const shell = spawn('bash', ['-c', command, process.execPath, MAIN], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [shell.stdout, shell.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text))
    await once(shell, 'close')
    expect(output).toMatch(/^\{"requestId":1,.*\}\n0\n$/)
  })
})

describe('several ids', () => {
  test('each gets its word and its line; one that is refused makes the exit code 1', async () => {
    const { cli } = workspace()
    for (const n of [1, 2]) await cli([...MESSAGE, String(n)])
    const { code, stdout, stderr } = await cli(['cancel', '1', '7', '2', '--json'])
    expect(code).toBe(1)
    expect(linesOf(stdout)).toMatchObject([
      { requestId: 1, result: 'applied', state: 'canceled' },
      { requestId: 7, result: 'not_found', error: { code: 'REQUEST_NOT_FOUND' } },
      { requestId: 2, result: 'applied', state: 'canceled' },
    ])
    expect(stderr).toMatch(/^error REQUEST_NOT_FOUND: .*7/)
    expect((await cli(['cancel', '1', '2'])).code).toBe(0)
  })
})

describe('migrate', () => {
  test('it makes the database once, whoever else does at the same moment', async () => {
    const { json, folder, database } = workspace()
    const exits = await Promise.all(
      [1, 2, 3].map(async () => {
        const [code] = await once(startCli(folder, ['migrate']), 'exit')
        return code
      }),
    )
    expect(exits).toEqual([0, 0, 0])
    expect(await json(['migrate'])).toMatchObject({
      engine: 'sqlite',
      location: join(database),
      schemaVersion: expect.any(Number),
    })
  })
})
