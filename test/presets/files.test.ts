// What a preset says of itself is what the loader makes of it, and every claim in it names its source.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { kindOf, promiseOf } from '../../src/cli/promise.ts'
import { neededEnv } from '../../src/config/environment.ts'
import { loadConfig } from '../../src/config/load-config.ts'
import type { TargetDefinition } from '../../src/config/target-definition.ts'
import { templatesOf } from '../../src/config/target-templates.ts'
import { FOLDER, presetText } from './support/preset-world.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** As documented: how long each API remembers, and what a repeat gets after a failed first call. */
const DOCUMENTED: Readonly<Record<string, readonly [rememberedForMs: number | null, failedFirst: string | null]>> = {
  bigquery: [30 * DAY, 'unknown'],
  brevo: [15 * MINUTE, 'replayed'],
  databricks: [24 * HOUR, 'reexecuted'],
  'github-actions': [null, null],
  'openai-batches': [null, 'unknown'],
  paypal: [6 * HOUR, 'unknown'],
  slack: [null, null],
  stripe: [24 * HOUR, 'replayed'],
  twilio: [null, null],
  zuora: [24 * HOUR, 'replayed'],
}

/** A page, a repository, or that there is none. */
const SOURCE = /\w\.[a-z]+(\/|,)|\w\/\w|documented|documentation|of the SOAP API|the same page/

const names = readdirSync(FOLDER).map((file) => file.replace(/\.yaml$/, ''))

async function targetOf(name: string): Promise<TargetDefinition> {
  const { targets } = await loadConfig({ file: fileURLToPath(new URL(`${name}.yaml`, FOLDER)) })
  const [target, ...others] = Object.values(targets)
  if (target === undefined || others.length > 0) throw new Error(`${name} does not describe one target`)
  return target
}

/** Lines that decide what is safe, each with the comment above it and beside it. */
function claimsOf(text: string): { readonly line: string; readonly comment: string }[] {
  const lines = text.split('\n')
  return lines.flatMap((line, at) => {
    if (!/^\s+(- when|rememberedFor|failedFirst|taskId|ours|settleMs|remembers|complete|rateLimit|success):/.test(line))
      return []
    if (/^\s+taskId: "{% \$key %}"$/.test(line)) return [] // of the rule above it
    let from = at
    while (/^\s+#/.test(lines[from - 1] ?? '')) from--
    return [{ line: line.trim(), comment: [...lines.slice(from, at), line].join('\n') }]
  })
}

test('there are ten, and they cover the four kinds', async () => {
  expect(names).toEqual(Object.keys(DOCUMENTED))
  expect(names).toHaveLength(10)
  const kinds = await Promise.all(names.map(async (name) => kindOf(await targetOf(name))))
  expect(new Set(kinds)).toEqual(new Set(['client id', 'keyed', 'lookup only', 'opaque']))
})

test('the package carries them', () => {
  const { files } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(files).toContain('fixtures/targets')
})

describe.each(names)('%s', (name) => {
  const text = presetText(name)

  test('its head claims the kind and the promise that follow from the rest', async () => {
    const target = await targetOf(name)
    const [first = '', second] = text.split('\n')
    expect(second).toBe(`# Kind: ${kindOf(target)}. Promise: ${promiseOf(target)}.`)
    expect(first).toMatch(/^# [A-Z]\w+, [\w' ]+: (client id|keyed|lookup only|opaque)[,;] .{5,}$/)
    expect(first).toContain(`: ${kindOf(target)}`)
    expect(first.length).toBeLessThanOrEqual(100)
  })

  test('its window and what follows a failure are the documented ones', async () => {
    const { idempotency } = await targetOf(name)
    expect([idempotency?.rememberedForMs ?? null, idempotency?.failedFirst ?? null]).toEqual(DOCUMENTED[name])
  })

  test('where a failure takes a new key, no 5xx counts as one', async () => {
    const { idempotency, outcomes } = await targetOf(name)
    if (idempotency?.failedFirst !== 'replayed') return
    expect(outcomes[0]).toMatchObject({ when: '{% $response.status >= 500 %}', is: 'unknown' })
  })

  test('every call goes to one host over TLS', async () => {
    const { submit, lookup, cancel, status } = await targetOf(name)
    const urls = [submit, lookup, cancel, status].flatMap((call) => (call === null ? [] : [call.url]))
    const origins = urls.map((url) => /^https:\/\/[\w.-]+\.[a-z]+(?=\/)/.exec(url)?.[0])
    expect(new Set(origins).size).toBe(1)
    expect(origins[0]).toBeDefined()
  })

  test('every call takes its secrets from the environment, in a header', async () => {
    const config = await loadConfig({ file: fileURLToPath(new URL(`${name}.yaml`, FOLDER)) })
    const target = await targetOf(name)
    expect(neededEnv(config).length).toBeGreaterThan(0)
    for (const call of ['submit', 'lookup', 'cancel', 'status'] as const) {
      if (target[call] === null) continue
      const readers = templatesOf(target).filter((place) => place.call === call && place.compile().envNames.size > 0)
      expect(readers.map(({ part }) => part)).toEqual(['header'])
    }
  })

  test('every claim has its source, a page or the word that it is assumed', () => {
    const claims = claimsOf(text)
    expect(claims.length).toBeGreaterThanOrEqual(2)
    for (const { line, comment } of claims) expect(comment, line).toMatch(/source: \S/)
    const sources = [...text.matchAll(/source: (.*)/g)].map(([, source = '']) => source)
    expect(sources.length).toBeGreaterThanOrEqual(4)
    for (const source of sources) expect(source).toMatch(SOURCE)
  })

  test('it tells what to judge or edit', () => {
    expect(text.split('\nstore:')[0]).toMatch(/Judge: /)
  })
})
