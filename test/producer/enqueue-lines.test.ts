import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { NO_POLICY } from '../../src/core/policy.ts'
import { enqueueLines, type LinesOptions } from '../../src/producer/enqueue-lines.ts'
import { toNewRequest } from '../../src/producer/new-request.ts'
import { openStore } from '../../src/store/open-store.ts'
import { tempDir } from '../support/temp-dir.ts'

const rules = {
  now: () => 5,
  maxPayloadBytes: 200,
  targetNames: ['video', 'parcel'],
  schemaOf: () => undefined,
  policyOf: (name: string) => (['video', 'parcel'].includes(name) ? NO_POLICY : undefined),
}

async function feed(text: string | Buffer[], options: Partial<LinesOptions> = {}) {
  const store = await openStore(join(tempDir(), 'jobs.db'), { create: true, now: 1 })
  const chunks = typeof text === 'string' ? [Buffer.from(text)] : text
  const lines = { defaultTarget: 'video', onError: 'stop', ...options } as const
  const report = await enqueueLines(store, Readable.from(chunks) as AsyncIterable<Buffer>, lines, rules)
  const rows = await store.list({ limit: 5000 })
  await store.close()
  return { report, rows }
}

test('lines keep their order as ids, whatever the chunks, and blank lines are counted but not enqueued', async () => {
  const text = '\uFEFF{"payload":1,"priority":3}\r\n\n{"payload":2,"target":"parcel"}\n{"payload":"ä"}'
  const bytes = Buffer.from(text)
  const { report, rows } = await feed(Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)))
  expect(report).toEqual({ enqueued: 3, deduplicated: 0, skipped: 0, errors: [] })
  expect(rows.map((row) => [row.requestId, row.target, row.priority])).toEqual([
    [1, 'video', 3],
    [2, 'parcel', 0],
    [3, 'video', 0],
  ])
})

test.each([
  ['{"payload": 1', 'LINE_INVALID', 'it is no JSON'],
  ['[1]', 'LINE_INVALID', 'it is no object'],
  ['{"target":"video"}', 'LINE_INVALID', 'no "payload"'],
  ['{"payload":1,"prioritty":2}', 'LINE_INVALID', 'did you mean "priority"?'],
  ['{"payload":1,"priority":"high"}', 'REQUEST_INVALID', 'priority is a whole number'],
  ['{"payload":1,"priority":null}', 'REQUEST_INVALID', 'priority is a whole number'],
  ['{"payload":1,"dedupe":null}', 'REQUEST_INVALID', 'dedupe is always, live, none, not null'],
  [
    '{"payload":1,"logicalHash":7}',
    'REQUEST_INVALID',
    'logicalHash is text of 1 to 512 well-formed characters without NUL, not 7',
  ],
  ['{"payload":1,"priority":40000}', 'REQUEST_INVALID', 'from -32767 to 32767'],
  ['{"payload":1,"runAt":"tomorrow"}', 'REQUEST_INVALID', 'ISO 8601'],
  [
    '{"payload":1,"orderingKey":7}',
    'REQUEST_INVALID',
    'orderingKey is well-formed text without NUL, not blank, of 1 to 256 bytes in UTF-8, not number',
  ],
  ['{"payload":1,"orderingKey":""}', 'REQUEST_INVALID', 'not blank, of 1 to 256 bytes'],
  ['{"payload":1,"group":"a\\u0000b"}', 'REQUEST_INVALID', 'group is well-formed text without NUL'],
  ['{"payload":1,"logicalHash":"a\\u0000b"}', 'REQUEST_INVALID', 'well-formed characters without NUL'],
  ['{"payload":1,"orderingKey":"\\ud800"}', 'REQUEST_INVALID', 'well-formed'],
  ['{"payload":1,"target":"vidoe"}', 'TARGET_UNKNOWN', 'did you mean "video"?'],
  ['{"payload":1e400}', 'PAYLOAD_NOT_CANONICAL', 'Infinity'],
  ['{"payload":{"id":9007199254740993}}', 'LINE_INVALID', 'send it as text, "9007199254740993"'],
  [`{"payload":"${'x'.repeat(300)}"}`, 'PAYLOAD_TOO_LARGE', 'longer than 200 bytes'],
  [`{"payload":"\\ud800"}`, 'PAYLOAD_NOT_CANONICAL', 'lone surrogate'],
])('%s is named with its line', async (line, code, message) => {
  const { report, rows } = await feed(`{"payload":0}\n${line}\n{"payload":2}\n`, { onError: 'skip' })
  expect(report).toMatchObject({
    enqueued: 2,
    skipped: 1,
    errors: [{ line: 2, code, message: expect.stringContaining(message) }],
  })
  expect(rows).toHaveLength(2)
})

test('a line that is not UTF-8 is named, not mended', async () => {
  const { report } = await feed(
    [Buffer.from('{"payload":"'), Buffer.from([0xff]), Buffer.from('"}\n{"payload":2}\n')],
    { onError: 'skip' },
  )
  expect(report).toMatchObject({ enqueued: 1, errors: [{ line: 1, code: 'LINE_INVALID', message: 'it is not UTF-8' }] })
})

test('with stop, the whole transactions before the bad line stay, and running again is safe', async () => {
  const lines = Array.from({ length: 2500 }, (_, n) => JSON.stringify({ payload: { n } }))
  lines[2199] = 'oops'
  const stopped = await feed(lines.join('\n'))
  expect(stopped.report).toMatchObject({ enqueued: 2000, errors: [{ line: 2200, code: 'LINE_INVALID' }] })
  expect(stopped.rows).toHaveLength(2000)
})

test('a conflict stops like any bad line, and is skipped like one', async () => {
  const text = ['{"payload":1,"logicalHash":"a"}', '{"payload":2,"logicalHash":"a"}', '{"payload":3}'].join('\n')
  const stopped = await feed(text)
  expect(stopped.report).toMatchObject({ enqueued: 0, errors: [{ line: 2, code: 'LOGICAL_HASH_CONFLICT' }] })
  expect(stopped.rows).toEqual([])
  const skipped = await feed(text, { onError: 'skip' })
  expect(skipped.report).toMatchObject({
    enqueued: 2,
    skipped: 1,
    errors: [{ line: 2, code: 'LOGICAL_HASH_CONFLICT' }],
  })
})

test('one whose deadline is over before it is due is refused, and one that is there already is found, however it is given', async () => {
  const late = '{"payload":1,"runAt":9,"expiresAt":9}'
  const fresh = await feed(late)
  expect(fresh.report.errors).toEqual([
    { line: 1, code: 'REQUEST_INVALID', message: expect.stringContaining('is not after it is due') },
  ])
  const again = await feed(`{"payload":1}\n${late}\n`)
  expect(again.report).toMatchObject({ enqueued: 1, deduplicated: 1, skipped: 0 })
})

test('a line longer than the limit costs no memory', async () => {
  const chunk = Buffer.alloc(1 << 20, 'x')
  async function* endless() {
    for (let i = 0; i < 256; i++) yield chunk
    yield Buffer.from('\n{"payload":1}\n')
  }
  const before = process.memoryUsage().rss
  const store = await openStore(join(tempDir(), 'jobs.db'), { create: true, now: 1 })
  const report = await enqueueLines(store, endless(), { defaultTarget: 'video', onError: 'skip' }, rules)
  await store.close()
  expect(report).toMatchObject({ enqueued: 1, skipped: 1 })
  expect(process.memoryUsage().rss - before).toBeLessThan(128 << 20)
})

test('what a caller gives in code is refused with the same care', () => {
  const request = (fields: object) => () => toNewRequest({ target: 'video', payload: 1, ...fields }, rules)
  expect(request({ payload: undefined })).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL' }))
  expect(request({ payload: 'x'.repeat(200) })).toThrow(expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }))
  expect(request({ runAt: Number.NaN })).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  expect(request({ runAt: new Date('x') })).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  for (const delay of [true, null, -1, 'soon', '15'])
    expect(request({ delay })).toThrow(
      expect.objectContaining({ code: 'REQUEST_INVALID', message: expect.stringMatching(/^delay: .*no duration/) }),
    )
  expect(request({ expiresAt: 'soon' })).toThrow(
    expect.objectContaining({ code: 'REQUEST_INVALID', message: expect.stringMatching(/^expiresAt is/) }),
  )
  expect(toNewRequest({ target: 'video', payload: 1, delay: '1s', expiresAt: new Date(9000) }, rules)).toMatchObject({
    dueAt: 1005,
    expiresAt: 9000,
  })
  expect(request({ priority: 1.5 })).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  expect(request({ logicalHash: '' })).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  expect(toNewRequest({ target: 'video', payload: 1, runAt: '2027-01-31T10:00:00+01:00' }, rules)).toMatchObject({
    dueAt: Date.UTC(2027, 0, 31, 9),
  })
})

test('dedupe given with a request is no way around the checks of its target', () => {
  const lookup = {
    settleMs: 1,
    everyMs: 1,
    misses: 1,
    missMeans: 'hold',
    remembersMs: null,
    dependsOnKey: false,
  } as const
  const blind = { ...rules, policyOf: (name: string) => (name === 'video' ? { ...NO_POLICY, lookup } : undefined) }
  const request = (target: string) => () => toNewRequest({ target, payload: 1, dedupe: 'none' }, blind)
  expect(request('nope')).toThrow(expect.objectContaining({ code: 'TARGET_UNKNOWN' }))
  expect(request('video')).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
})
