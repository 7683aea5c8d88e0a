// `onceish init --preset`: the installed command line finds the presets and writes them as they are.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { linesOf, workspace } from '../support/run-cli.ts'
import { presetText } from './support/preset-world.ts'

const CONFIG = 'onceish.config.yaml'

test('it writes the preset as it is, says which secrets it wants, and targets shows what is promised', async () => {
  const { cli, folder } = workspace(null)
  const { code, stdout } = await cli(['init', '--preset', 'twilio'])
  expect(code).toBe(0)
  expect(stdout).toContain('TWILIO_ACCOUNT_SID=... TWILIO_AUTH_TOKEN=... onceish work')
  expect(stdout).toContain('--target messages')
  expect(readFileSync(join(folder, CONFIG), 'utf8')).toBe(presetText('twilio'))
  expect((await cli(['targets'])).stdout).toContain('at most 1 without your word')
})

test('it leaves a config that is there alone, unless forced', async () => {
  const { cli, write, folder } = workspace(null)
  const path = write(CONFIG, 'targets: {}\n')
  const refused = await cli(['init', '--preset', 'stripe'])
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain('error FILE_EXISTS:')
  expect(readFileSync(path, 'utf8')).toBe('targets: {}\n')
  const forced = await cli(['init', '--preset', 'stripe', '--force', '--json'])
  expect(linesOf(forced.stdout)).toEqual([{ path: join(folder, CONFIG), preset: 'stripe' }])
  expect(readFileSync(path, 'utf8')).toBe(presetText('stripe'))
})

test('an unknown name is a usage error with the nearest one and the list, and writes nothing', async () => {
  const { cli, folder } = workspace(null)
  const refused = await cli(['init', '--preset', 'strip', '--force'])
  expect(refused).toMatchObject({ code: 2, stdout: '' })
  expect(refused.stderr).toMatch(
    /^error USAGE: .*"strip"; did you mean "stripe"\? \(known: bigquery, brevo, .*zuora\)\n$/,
  )
  expect(existsSync(join(folder, CONFIG))).toBe(false)
})

test('a path is the name of no preset', async () => {
  const refused = await workspace(null).cli(['init', '--preset', '../targets/stripe'])
  expect(refused).toMatchObject({ code: 2, stdout: '' })
  expect(refused.stderr).toMatch(/^error USAGE: /)
})

test('the list and the help name each preset with the first line of its file', async () => {
  const { cli, folder } = workspace(null)
  const help = (await cli(['init', '--help'])).stdout
  const { code, stdout } = await cli(['init', '--preset', 'list'])
  expect(code).toBe(0)
  for (const name of ['bigquery', 'openai-batches', 'zuora']) {
    const summary = presetText(name).split('\n')[0]?.slice(2) ?? ''
    for (const text of [help, stdout]) expect(text).toMatch(new RegExp(`^ *${name} +${summary}$`, 'm'))
  }
  const json = linesOf((await cli(['init', '--preset', 'list', '--json'])).stdout)
  expect(json).toHaveLength(10)
  expect(json[0]).toEqual({ name: 'bigquery', summary: presetText('bigquery').split('\n')[0]?.slice(2) })
  expect(existsSync(join(folder, CONFIG))).toBe(false)
})
