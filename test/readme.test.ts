// What README shows is what happens: each of its blocks is run, and so are those of the READMEs below src/.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../src/config/load-config.ts'
import { policyOf } from '../src/config/policy.ts'
import { startJobsApi } from './support/jobs-api.ts'
import { type Block, blocksOf, commandsOf } from './support/markdown.ts'
import { isOnceish, readersPlace, runProgram, typeCommand } from './support/readme-reader.ts'
import { NOT_RUN, STAGE_FILE, STAGES } from './support/readme-stage.ts'
import { tempDir } from './support/temp-dir.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const RUN_LANGUAGES = ['yaml', 'ts', 'sh']
const TIMEOUT_MS = 240_000

const below = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((path) => /\.md$/.test(path))
const documents = ['README.md', ...below.map((path) => join('src', path))]
const blocks = documents.flatMap((path) => blocksOf(path, readFileSync(join(ROOT, path), 'utf8')))
const firstConfig = blocks.find((block) => block.language === 'yaml')?.text ?? ''

const headOf = (block: Block) => block.text.split('\n')[0]?.trim() ?? ''
const isListed = (text: string) => Object.hasOwn(NOT_RUN, text)
const toRun = (language: string) => blocks.filter((block) => block.language === language && !isListed(headOf(block)))
const named = (found: readonly Block[]) => found.map((block) => [`${block.document}:${block.line}`, block] as const)
const commands = blocks.filter((block) => block.language === 'sh').flatMap(commandsOf)

describe('nothing slips in unrun', () => {
  test('each block is of a language that is run, or listed with the reason why it is not', () => {
    const strays = blocks
      .filter((block) => !RUN_LANGUAGES.includes(block.language) && !isListed(headOf(block)))
      .map(({ document, line, language }) => `${document}:${line}: nothing runs a block of "${language}"`)
    expect(
      strays,
      `write it as ${RUN_LANGUAGES.join(', ')}, or list its first line in NOT_RUN of ${STAGE_FILE}`,
    ).toEqual([])
  })

  test('each sh command is one of onceish, or listed with the reason why it is not run', () => {
    const strays = commands
      .filter(({ text }) => !isOnceish(text) && !isListed(text))
      .map(({ document, line, text }) => `${document}:${line}: nothing runs "${text}"`)
    expect(strays, `only commands that say "npx onceish" are run; list others in NOT_RUN of ${STAGE_FILE}`).toEqual([])
  })

  test('whatever is staged or listed is still there', () => {
    const texts = new Set([...commands.map(({ text }) => text), ...blocks.map(headOf)])
    const stale = [...Object.keys(NOT_RUN), ...Object.keys(STAGES)].filter((text) => !texts.has(text))
    expect(stale, `take it out of ${STAGE_FILE}, or name the changed text there`).toEqual([])
  })
})

describe('yaml', () => {
  test.each(named(toRun('yaml')))('%s loads as it stands', async (_, block) => {
    const file = join(tempDir(), 'onceish.config.yaml')
    writeFileSync(file, block.text)
    const { targets } = await loadConfig({ file })
    expect(Object.keys(targets).length).toBeGreaterThan(0)
  })

  test('the four kinds of README climb the ladders that it says', async () => {
    const file = join(tempDir(), 'onceish.config.yaml')
    writeFileSync(file, blocks.find((block) => block.text.includes('byLookup:'))?.text ?? '')
    const { targets } = await loadConfig({ file })
    const ladders = Object.values(targets).map((target) => [target.name, policyOf(target).recovery.join(' ')])
    expect(Object.fromEntries(ladders)).toEqual({
      byName: 'replay hold',
      byKey: 'replay hold',
      byLookup: 'lookup hold',
      opaque: 'hold',
    })
  })
})

describe('sh', () => {
  const inDocument = (path: string) =>
    commands.filter(({ document, text }) => document === path && isOnceish(text) && !isListed(text))

  test.each(documents.filter((path) => inDocument(path).length > 0))(
    'the commands of %s, one after the other, end as they should',
    async (path) => {
      const api = await startJobsApi()
      const place = readersPlace(firstConfig, api)
      for (const command of inDocument(path)) await typeCommand(command, place, api)
    },
    TIMEOUT_MS,
  )
})

describe('ts', () => {
  test(
    'all blocks compile as a strict consumer would compile them, and run against the local API',
    async () => {
      const api = await startJobsApi()
      const place = readersPlace(firstConfig, api)
      const programs = named(toRun('ts')).map(([at, block]) => ({
        at,
        text: block.text,
        name: at.replaceAll(/\W/g, '-'),
      }))
      for (const { name, text } of programs) place.write(`${name}.ts`, `${api.standInFor(text)}\nexport {}\n`)
      expect(
        await place.compile(),
        `a block that is no program of its own goes into NOT_RUN of ${STAGE_FILE}`,
      ).toMatchObject({ code: 0, stdout: '' })
      for (const program of programs) await runProgram(program, place, api)
    },
    TIMEOUT_MS,
  )
})
