// What a newcomer sees: version, help with examples, suggestions, and a config that loads as it was written.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { linesOf, NOWHERE, workspace } from '../support/run-cli.ts'

const COMMANDS =
  'init migrate targets enqueue work recover status list show retry resolve cancel orphans pause resume purge backup copy doctor'.split(
    ' ',
  )

describe('help', () => {
  test('the version is the bare number of package.json, without a config', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    expect(await workspace(null).cli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  test('the help names every command and ends with an example', async () => {
    const { code, stdout } = await workspace(null).cli(['--help'])
    expect(code).toBe(0)
    for (const name of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${name}\\b`, 'm'))
    expect(stdout).toMatch(/\nExample:\n( {2}onceish .+\n)+$/)
  })

  test.each(COMMANDS)('the help of %s ends with an example of it', async (name) => {
    const { code, stdout } = await workspace(null).cli([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain('--config <file>')
    expect(stdout).toMatch(new RegExp(`\\nExample:\\n( {2}onceish ${name}.*\\n)+$`))
  })

  test('without a command the help goes to stderr as a usage error', async () => {
    const { code, stdout, stderr } = await workspace(null).cli([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: onceish')
  })

  test.each([
    [['enqueu'], 'enqueue'],
    [['list', '--stat', 'held'], '--state'],
    [['list', '--state', 'hold'], 'held'],
  ])('%j names the nearest', async (args, nearest) => {
    const { code, stdout, stderr } = await workspace().cli(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^error USAGE: .*did you mean ${nearest}\\?.*\\n$`, 'i'))
  })
})

describe('init', () => {
  test('it writes a config that loads as it is, and targets shows what is promised', async () => {
    const { cli, folder } = workspace(null)
    const { code, stdout } = await cli(['init'])
    expect(code).toBe(0)
    expect(stdout).toContain('onceish work --drain')
    expect(readFileSync(join(folder, 'onceish.config.yaml'), 'utf8')).toMatch(
      /Client id[\s\S]*Keyed[\s\S]*Lookup only[\s\S]*Opaque/,
    )
    expect(readFileSync(join(folder, 'onceish.config.yaml'), 'utf8')).toMatch(/rotated[^\n]*\n +# account: /)
    const targets = await cli(['targets'])
    expect(targets.code).toBe(0)
    expect(targets.stdout).toContain('exactly 1 within 24h')
    expect((await cli(['enqueue', '--target', 'example', '--payload', '{}'])).code).toBe(0)
  })

  test('it leaves a config that is there alone, unless forced', async () => {
    const { cli, write, folder } = workspace(null)
    const path = write('onceish.config.yaml', 'targets: {}\n')
    const refused = await cli(['init', '--json'])
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toContain('error FILE_EXISTS:')
    expect(readFileSync(path, 'utf8')).toBe('targets: {}\n')
    expect((await cli(['init', '--force', '--json'])).stdout).toBe(
      `${JSON.stringify({ path: join(folder, 'onceish.config.yaml') })}\n`,
    )
    expect(readFileSync(path, 'utf8')).toContain('example:')
  })

  test('it adds no second config beside one of another kind, even if forced', async () => {
    const { cli } = workspace()
    expect(await cli(['init', '--force'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('onceish.config.json'),
    })
    expect((await cli(['targets'])).code).toBe(0)
  })
})

describe('targets', () => {
  test('each kind says what it promises, before there is a database', async () => {
    const { stdout } = await workspace().cli(['targets', '--json'])
    expect(linesOf(stdout)).toMatchObject([
      {
        target: 'executions',
        kind: 'client id',
        method: 'PUT',
        promise: 'exactly 1 within 1h',
        recovery: ['replay', 'hold'],
      },
      { target: 'renders', kind: 'keyed', promise: 'exactly 1 within 1h', marginMs: 950, paused: false },
      {
        target: 'parcels',
        kind: 'lookup only',
        promise: 'exactly 1, given a truthful lookup settled after 600ms',
        settleMs: 600,
      },
      { target: 'messages', kind: 'opaque', promise: 'at most 1 without your word', recovery: ['hold'] },
    ])
  })

  test('no secret and no promise of exactly once is shown', async () => {
    const headers = { authorization: "{% 'Bearer ' & $env.ONCEISH_TEST_TOKEN %}" }
    const { cli } = workspace(configFor(NOWHERE, { targets: { renders: { submit: { headers } } } }))
    for (const args of [['targets'], ['targets', '--json']]) {
      const { code, stdout } = await cli(args, { env: { ONCEISH_TEST_TOKEN: 'hunter2' } })
      expect(code).toBe(0)
      expect(stdout).toContain('renders')
      expect(stdout).not.toMatch(/hunter2|exactly once/i)
    }
  })
})
