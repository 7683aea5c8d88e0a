// Purge, backup and doctor as people and scripts run them. The library sets the scene, so that few processes are needed.
import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Onceish, openOnceish } from '../../src/index.ts'
import { configFor } from '../support/api.ts'
import { linesOf, NOWHERE, type Workspace, workspace } from '../support/run-cli.ts'

async function through<T>(store: string, use: (once: Onceish) => Promise<T>): Promise<T> {
  const once = await openOnceish({ config: configFor(NOWHERE, { store }) })
  try {
    return await use(once)
  } finally {
    await once.close()
  }
}

/** Requests of one target, the first `canceled` of them canceled. */
async function stocked(count: number, canceled = 0): Promise<Workspace> {
  const space = workspace()
  await through(space.database, async (once) => {
    const requests = Array.from({ length: count }, (_, payload) => ({ target: 'messages', payload }))
    await once.enqueueMany(requests)
    for (let id = 1; id <= canceled; id++) await once.cancel(id)
  })
  return space
}

describe('purge', () => {
  test('it says what would go and removes nothing, then does it and reports in one JSON document', async () => {
    const { cli, json, database } = await stocked(3, 2)
    const dry = await cli(['purge', '--older-than', '0s', '--dry-run'])
    expect(dry).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/canceled +2[\s\S]*2 requests would be purged/),
    })
    const words = ['--target', 'messages', '--state', 'canceled', '--state', 'dead']
    expect(await json(['purge', '--older-than', '0s', ...words])).toEqual({
      purged: 2,
      byState: { canceled: 2 },
      kept: {},
      payloads: 0,
      ms: expect.any(Number),
    })
    expect((await through(database, (once) => once.status())).states).toEqual({ ready: 1 })
  })

  test('held requests are refused as a usage error that names the way out', async () => {
    const { code, stdout, stderr } = await workspace().cli(['purge', '--older-than', '7d', '--state', 'held'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/held requests are never purged.*onceish resolve/)
  })
})

test('a backup is a store of its own, and what is there is not overwritten', async () => {
  const { cli, json, folder } = await stocked(1)
  const copy = join(folder, 'copy.db')
  expect(await json(['backup', 'copy.db'])).toMatchObject({
    path: copy,
    bytes: statSync(copy).size,
    pages: expect.any(Number),
    highWaterAt: expect.any(Number),
  })
  expect(await through(copy, (once) => once.list({}))).toMatchObject([{ requestId: 1 }])
  expect(await cli(['backup', 'copy.db'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/FILE_EXISTS/) })
})

describe('doctor', () => {
  test('a store that is well ends with 0; one check is one JSON object a line', async () => {
    const { cli, database } = await stocked(1)
    const { code, stdout } = await cli(['doctor', '--json'])
    const checks = linesOf(stdout) as { name: string; ok: string; found: string; advice: string | null }[]
    // The file system and its free space are the machine's own.
    const isOwn = ({ name }: { name: string }) => name !== 'file_system' && name !== 'disk_space'
    expect(checks.filter(isOwn).filter(({ ok }) => ok !== 'ok')).toEqual([])
    expect(checks).toContainEqual({ name: 'database', ok: 'ok', found: database, advice: null })
    expect(code).toBe(checks.every(({ ok }) => ok === 'ok') ? 0 : checks.some(({ ok }) => ok === 'fail') ? 1 : 3)
  })

  test('what needs a person ends with 3, with the command to run', async () => {
    const { cli, database } = await stocked(1)
    await through(database, (once) => once.pause('messages', 'moving'))
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
