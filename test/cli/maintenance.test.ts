// Purge, backup and doctor as people and scripts run them.
import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { linesOf, NOWHERE, workspace } from '../support/run-cli.ts'

const MESSAGE = ['enqueue', '--target', 'messages', '--payload']

describe('purge', () => {
  test('it says what would go, does it, and reports in one JSON document', async () => {
    const { cli, json, write } = workspace()
    write('three.ndjson', [1, 2, 3].map((payload) => JSON.stringify({ payload })).join('\n'))
    await cli(['enqueue', '--target', 'messages', '--file', 'three.ndjson'])
    await cli(['cancel', '1', '2'])
    const dry = await cli(['purge', '--older-than', '0s', '--dry-run'])
    expect(dry).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/canceled +2[\s\S]*2 requests would be purged/),
    })
    expect(await json(['purge', '--older-than', '1h'])).toEqual({
      purged: 0,
      byState: {},
      kept: { tooRecent: 2 },
      payloads: 0,
      ms: expect.any(Number),
    })
    const states = ['--state', 'canceled', '--state', 'dead']
    expect(await json(['purge', '--older-than', '0s', '--target', 'messages', ...states])).toMatchObject({
      purged: 2,
      byState: { canceled: 2 },
    })
    expect(await json(['status'])).toMatchObject({ states: { ready: 1 } })
  })

  test.each([
    [['purge'], /--older-than/],
    [['purge', '--older-than', '7d', '--state', 'held'], /held requests are never purged.*onceish resolve/],
  ])('%j is a usage error', async (args, said) => {
    const { cli } = workspace()
    const { code, stdout, stderr } = await cli(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(said)
  })
})

test('a backup is a store of its own, and what is there is not overwritten', async () => {
  const { cli, json, folder } = workspace()
  await json([...MESSAGE, '1'])
  const copy = join(folder, 'copy.db')
  expect(await json(['backup', 'copy.db'])).toMatchObject({
    path: copy,
    bytes: statSync(copy).size,
    pages: expect.any(Number),
    highWaterAt: expect.any(Number),
  })
  expect(linesOf((await cli(['list', '--store', 'copy.db', '--json'])).stdout)).toMatchObject([{ requestId: 1 }])
  expect(await cli(['backup', 'copy.db'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/FILE_EXISTS/) })
  expect((await cli(['backup', 'other.db'])).stdout).toMatch(/^copy +.*other\.db\nsize +\d+ bytes, \d+ pages\n/)
})

describe('doctor', () => {
  test('a store that is well ends with 0; one check is one JSON object a line', async () => {
    const config = configFor(NOWHERE)
    const { cli, json, database } = workspace(config)
    await json([...MESSAGE, '1'])
    const { code, stdout } = await cli(['doctor', '--json'])
    const checks = linesOf(stdout) as { name: string; ok: string; found: string; advice: string | null }[]
    // The file system and its free space are the machine's own.
    const own = checks.filter(({ name }) => name !== 'file_system' && name !== 'disk_space')
    expect(own.filter(({ ok }) => ok !== 'ok')).toEqual([])
    expect(checks.find(({ name }) => name === 'database')).toEqual({
      name: 'database',
      ok: 'ok',
      found: database,
      advice: null,
    })
    expect([0, 3]).toContain(code)
  })

  test('what needs a person ends with 3, with the command to run', async () => {
    const { cli, json, database } = workspace()
    await json([...MESSAGE, '1'])
    await cli(['pause', 'messages', '--reason', 'moving'])
    chmodSync(database, 0o640)
    const { code, stdout } = await cli(['doctor'])
    expect(code).toBe(3)
    expect(stdout).toMatch(/^warn +paused +messages .*moving.*\n +-> onceish resume messages$/m)
    expect(stdout).toMatch(/^warn +permissions .*\n +-> chmod 600 /m)
  })

  test('without a database it says so and makes none; a damaged one ends with 1', async () => {
    const { cli, database } = workspace()
    const none = await cli(['doctor'])
    expect(none).toMatchObject({ code: 3, stdout: expect.stringMatching(/there is none yet/) })
    expect(existsSync(database)).toBe(false)
    writeFileSync(database, 'damaged'.repeat(1000), { mode: 0o600 })
    const damaged = await cli(['doctor', '--json'])
    expect(damaged.code).toBe(1)
    expect(linesOf(damaged.stdout)).toContainEqual(expect.objectContaining({ name: 'database', ok: 'fail' }))
  })
})
