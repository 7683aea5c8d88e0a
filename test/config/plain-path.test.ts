import jsonata from 'jsonata'
import { expect, test } from 'vitest'
import type { SyntaxNode } from '../../src/config/expression-names.ts'
import { plainJson } from '../../src/config/plain-json.ts'
import { compilePlainPath, UNSURE } from '../../src/config/plain-path.ts'

const FIELDS = ['a', 'b', 'length', 'constructor', '__proto__', 'sequence', '_jsonata_lambda']
const LEAVES = [null, true, false, 0, -1, 409, 0.5, '', 'x', '409']

/** A small seeded generator (mulberry32): a failure names its seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

function pick<Item>(random: () => number, items: readonly Item[]): Item {
  return items[Math.floor(random() * items.length)] as Item
}

function randomValue(random: () => number, depth: number): unknown {
  const kind = depth === 0 ? 0 : random()
  if (kind < 0.25) return pick(random, LEAVES)
  const size = Math.floor(random() * 4)
  if (kind < 0.4) return Array.from({ length: size }, () => randomValue(random, depth - 1))
  return Object.fromEntries(
    Array.from({ length: size + 1 }, () => [pick(random, FIELDS), randomValue(random, depth - 1)]),
  )
}

function randomSource(random: () => number): string {
  const steps = Array.from({ length: Math.floor(random() * 4) }, () => `.\`${pick(random, FIELDS)}\``)
  const path = `$${pick(random, ['payload', 'key', 'taskId'])}${steps.join('')}`
  if (random() < 0.5) return path
  return `${path} ${pick(random, ['=', '!='])} ${JSON.stringify(pick(random, LEAVES))}`
}

test('the fast path says what JSONata says, or that it is unsure', () => {
  let sure = 0
  for (let seed = 1; seed <= 20_000; seed++) {
    const random = randomOf(seed)
    const source = randomSource(random)
    const variables = { payload: randomValue(random, 4), key: pick(random, ['k', null]) }
    const expression = jsonata(source)
    const quick = compilePlainPath(expression.ast() as unknown as SyntaxNode)
    if (quick === null) throw new Error(`no fast path for ${source}`)
    const answer = quick(variables)
    if (answer === UNSURE) continue
    sure++
    const expected = plainJson(expression.evaluate(undefined, variables), source)
    expect(plainJson(answer, source), `seed ${seed}: ${source} on ${JSON.stringify(variables)}`).toEqual(expected)
  }
  expect(sure).toBeGreaterThan(5000)
})

test.each(['$payload.a.b', '$payload', '$response.status = 409', "$response.body.code != 'x'", '$payload.`a b`'])(
  '%s has a fast path',
  (source) => {
    expect(compilePlainPath(jsonata(source).ast() as unknown as SyntaxNode)).not.toBeNull()
  },
)

test.each([
  '$payload.a[]',
  '$payload.a[0]',
  '$payload.*',
  '$payload.a.$string()',
  '$payload@$x.a',
  'a.b',
  '1 = $payload',
  '$now',
  '$millis = 1',
])('%s is left to JSONata', (source) => {
  expect(compilePlainPath(jsonata(source).ast() as unknown as SyntaxNode)).toBeNull()
})
