import { appendFileSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { clearSpill, removeSpill, takeSpills, writeSpill } from '../../src/consumer/spill.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
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

test('a torn line, another store’s line, a shape that is no answer and a folder cost nobody else anything', () => {
  const dead = place('dead')
  writeSpill(dead, [result(1)])
  appendFileSync(`${dead.storePath}.spill-dead.ndjson`, '["i",1,"n",10,"x","{}"]\n{"half')
  writeSpill({ ...dead, incarnation: 'other', boot: 'other' }, [result(2)])
  mkdirSync(`${dead.storePath}.spill-folder.ndjson`)
  const taken = takeSpills({ ...dead, boot: 'alive' })
  expect(taken.map(({ results, unreadable }) => [results.length, unreadable])).toEqual([
    [1, 2],
    [0, 1],
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
