import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { createAnswers } from '../../src/consumer/answers.ts'
import { createCounters } from '../../src/consumer/counters.ts'
import { SILENT } from '../../src/core/log.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import { writeSpill } from '../../src/store/spill.ts'
import { accepted } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

const result = (requestId: number): AttemptResult => ({
  requestId, target: 't', attempt: 1, nonce: 'n', idempotencyKey: null, outcome: accepted(`t${requestId}`), endedAt: 1,
}) // biome-ignore format: a result

function stage() {
  const place = { storePath: join(tempDir(), 'a.db'), incarnation: 'i', boot: 'alive' }
  const answers = createAnswers({ place, isKnown: () => true, log: SILENT, counters: createCounters() })
  return { place, answers, files: () => readdirSync(dirname(place.storePath)) }
}

test('what others left on disk stays there until the last of it is settled, however many turns that takes', () => {
  const { place, answers, files } = stage()
  writeSpill({ ...place, boot: 'dead' }, [result(1), result(2), result(3)])
  answers.add(result(9))
  answers.takeOver()
  answers.add(result(10))
  expect(answers.waiting.map(({ requestId }) => requestId)).toEqual([9, 1, 2, 3, 10])
  answers.settled(2)
  answers.settled(1)
  expect(files()).toHaveLength(1)
  answers.settled(1)
  expect(files()).toEqual([])
  expect(answers.waiting.map(({ requestId }) => requestId)).toEqual([10])
})

test('what this worker left on disk stays there until the last of it is settled', () => {
  const { answers, files } = stage()
  for (const id of [1, 2, 3]) answers.add(result(id))
  answers.spill()
  answers.add(result(4))
  expect(answers.isSafe()).toBe(false)
  answers.settled(2)
  expect(files()).toHaveLength(1)
  answers.settled(2)
  expect(files()).toEqual([])
  expect(answers.isSafe()).toBe(true)
})

test('answers of before a restore are told of once, at a level that is heard, and settle nothing', () => {
  const { place, files } = stage()
  writeSpill({ ...place, incarnation: 'former', boot: 'dead' }, [result(7), result(8), result(7)])
  const said: object[] = []
  const log = { ...SILENT, warn: (fields: object) => said.push(fields) }
  const answers = createAnswers({ place, isKnown: () => true, log, counters: createCounters() })
  answers.takeOver()
  answers.takeOver()
  expect(answers.waiting).toEqual([])
  expect(said).toMatchObject([{ answers: 3, requests: [7, 8], file: expect.stringContaining('spill-dead') }])
  expect(files()).toEqual(['a.db.spill-dead.ndjson'])
})
