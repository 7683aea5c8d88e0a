import { appendFileSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AttemptResult } from '../../src/core/settlement.ts'
import { clearSpill, readSpills, removeSpill, takeSpills, writeSpill } from '../../src/store/spill.ts'
import { accepted } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

const result = (requestId: number): AttemptResult => ({
  requestId, target: 't', attempt: 1, nonce: 'n', idempotencyKey: null, outcome: accepted(`t${requestId}`), endedAt: 1,
}) // biome-ignore format: a result

function place(boot: string, folder = tempDir()) {
  return { storePath: join(folder, 'a.db'), incarnation: 'i', boot }
}

test('what one worker spills another takes over, once, and not its own', () => {
  const dead = place('dead')
  writeSpill(dead, [result(1)])
  writeSpill(dead, [result(2)])
  expect(takeSpills(dead)).toEqual([])
  const reader = { ...dead, boot: 'alive' }
  const [file] = takeSpills(reader)
  expect(file?.results).toEqual([result(1), result(2)])
  expect(takeSpills({ ...dead, boot: 'third' })[0]?.results).toHaveLength(2) // the reader died before its commit
  removeSpill(takeSpills({ ...dead, boot: 'fourth' })[0] as never)
  expect(readdirSync(join(dead.storePath, '..'))).toEqual([])
})

test('answers of a former life are used for nothing, and their file keeps its name until a person removes it', () => {
  const dead = place('dead')
  writeSpill(dead, [result(1), result(2)])
  const name = `${dead.storePath}.spill-dead.ndjson`
  const restored = { ...dead, incarnation: 'later', boot: 'alive' }
  const [file] = takeSpills(restored)
  expect(file).toEqual({ path: name, results: [], former: [result(1), result(2)], unreadable: 0 })
  removeSpill(file as never)
  expect(takeSpills(restored, new Set([name]))).toEqual([])
  expect(takeSpills({ ...restored, boot: 'next' })).toEqual([file])
  expect(readSpills(restored)).toEqual([file])
})

test('a torn line, another store’s line, a shape that is no answer and a folder cost nobody else anything', () => {
  const dead = place('dead')
  writeSpill(dead, [result(1)])
  appendFileSync(`${dead.storePath}.spill-dead.ndjson`, '["i",1,"n",10,"x","{}"]\n{"half')
  writeSpill({ ...dead, incarnation: 'other', boot: 'other' }, [result(2)])
  mkdirSync(`${dead.storePath}.spill-folder.ndjson`)
  const taken = takeSpills({ ...dead, boot: 'alive' })
  expect(taken.map(({ results, former, unreadable }) => [results.length, former.length, unreadable])).toEqual([
    [1, 0, 2],
    [0, 1, 0],
  ])
  for (const file of taken) removeSpill(file)
  expect(readdirSync(join(dead.storePath, '..'))).toHaveLength(3)
})

test('a settled spill is gone', () => {
  const own = place('own')
  writeSpill(own, [result(1)])
  clearSpill(own)
  expect(readdirSync(join(own.storePath, '..'))).toEqual([])
})
