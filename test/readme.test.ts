// What README shows is what the loader takes.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../src/config/load-config.ts'
import { policyOf } from '../src/config/policy.ts'
import { tempDir } from './support/temp-dir.ts'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const blocks = [...README.matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1] ?? '')

test('README shows configs', () => {
  expect(blocks.length).toBeGreaterThanOrEqual(2)
})

test.each(blocks.map((block, i) => [i + 1, block] as const))(
  'config %i of README loads as it stands',
  async (_, block) => {
    const file = join(tempDir(), 'onceish.config.yaml')
    writeFileSync(file, block)
    const { targets } = await loadConfig({ file })
    expect(Object.keys(targets).length).toBeGreaterThan(0)
  },
)

test('the four kinds of README climb the ladders that it says', async () => {
  const file = join(tempDir(), 'onceish.config.yaml')
  writeFileSync(file, blocks.find((block) => block.includes('byLookup')) ?? '')
  const { targets } = await loadConfig({ file })
  const ladders = Object.values(targets).map((target) => [target.name, policyOf(target).recovery.join(' ')])
  expect(Object.fromEntries(ladders)).toEqual({
    byName: 'replay hold',
    byKey: 'replay hold',
    byLookup: 'lookup hold',
    opaque: 'hold',
  })
})
