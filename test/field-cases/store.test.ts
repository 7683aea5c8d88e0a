// Cases about the file: its growth, its file system, and what must never be written into it.
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { openOnceish } from '../../src/index.ts'
import { connect } from '../../src/store/sqlite/connection.ts'
import { virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { listen } from '../support/listen.ts'
import { workspace } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DAY_MS, keyed, openField } from './stage.ts'

const NOWHERE = { job: keyed('http://127.0.0.1:9/jobs') }
const MIB = 1_048_576

test('C16 WAL and file growth: a log held back by a reader is told, and within bounds again once the reader is gone', async () => {
  const clock = virtualClock()
  const said = listen()
  const path = join(tempDir(), 'jobs.db')
  const once = await openOnceish({ config: { store: path, targets: NOWHERE }, clock, log: said.log })
  onTestFinished(() => once.close())
  const reader = new Database(path, { readonly: true })
  onTestFinished(() => void reader.close())
  reader.exec('BEGIN')
  reader.prepare('SELECT COUNT(*) FROM requests').get()
  // What passes is due another day: the log grows by it all the same.
  const runAt = clock.wallNow() + DAY_MS
  const text = 'x'.repeat(900_000)
  for (let n = 0; n < 80; n += 10) {
    await once.enqueueMany(
      Array.from({ length: 10 }, (_, i) => ({ target: 'job', payload: { n: n + i, text }, runAt })),
    )
  }
  const walBytes = () => statSync(`${path}-wal`).size
  expect(walBytes()).toBeGreaterThan(64 * MIB)
  once.startWorker()
  await waitFor(
    () => {
      clock.advance(5000)
      return said.of('warn').length > 0
    },
    { what: 'the warning' },
  )
  expect(said.of('warn')).toEqual([expect.stringMatching(/holds back.*write-ahead log: it has grown to \d+ MiB/)])
  reader.exec('COMMIT')
  await waitFor(
    () => {
      clock.advance(5000)
      return walBytes() <= 64 * MIB
    },
    { what: 'the log to shrink' },
  )
})

test('C16 WAL and file growth: a payload of 20 MB with a limit of 1 MB is refused', async () => {
  const once = await openField({ store: join(tempDir(), 'jobs.db'), targets: NOWHERE, maxPayloadBytes: 1_000_000 })
  const enqueued = once.enqueue({ target: 'job', payload: 'x'.repeat(20_000_000) })
  await expect(enqueued).rejects.toMatchObject({
    code: 'PAYLOAD_TOO_LARGE',
    message: expect.stringMatching(/20000002 bytes, the limit is 1000000 .*send a reference/),
  })
  expect(await once.list()).toEqual([])
})

test('C17 database on a network or virtual file system: a journal that is not WAL after all is refused with advice', async () => {
  // The one database that everybody has at hand whose journal cannot be WAL.
  const before = process.cwd()
  process.chdir(tempDir())
  onTestFinished(() => process.chdir(before))
  await expect(connect(':memory:', { create: true })).rejects.toMatchObject({
    code: 'STORE_JOURNAL_MODE',
    message: expect.stringContaining('put it on a local file system'),
  })
})

test('C17 database on a network or virtual file system: where its shared memory cannot be made, nothing starts', async () => {
  const path = join(tempDir(), 'jobs.db')
  mkdirSync(`${path}-shm`)
  await expect(openOnceish({ config: { store: path, targets: NOWHERE } })).rejects.toMatchObject({
    code: 'STORE_UNWRITABLE',
    message: expect.stringContaining('check the folder'),
  })
})

test.each([
  [
    'a damaged header',
    'STORE_NOT_A_DATABASE',
    (whole: Buffer) => Buffer.concat([Buffer.from('not'), whole.subarray(3)]),
  ],
  ['half of it', 'STORE_CORRUPT', (whole: Buffer) => whole.subarray(0, whole.length / 2)],
])(
  'C17 database on a network or virtual file system: %s ends every command, and the file stays as it is',
  async (_, code, damage) => {
    const { database, cli } = workspace({ targets: NOWHERE })
    const once = await openField({ store: database, targets: NOWHERE })
    await once.enqueue({ target: 'job', payload: 1 })
    await once.close()
    const bytes = damage(readFileSync(database))
    writeFileSync(database, bytes)
    const worked = await cli(['work', '--drain'])
    expect(worked).toMatchObject({ code: 1, stderr: expect.stringMatching(`${code}: .*it was left as it is`) })
    const opened = openOnceish({ config: { store: database, targets: NOWHERE } })
    await expect(opened).rejects.toMatchObject({ code })
    expect(readFileSync(database).equals(bytes)).toBe(true)
  },
)

test('C18 secrets in stored errors: a token that the API echoes is in no file, no log and nothing that is shown', async () => {
  const TOKEN = 'tok_SECRET_4711'
  const api = await openFakeApi({ kind: 'keyed' })
  const submit = { url: api.url, headers: { authorization: "{% 'Bearer ' & $env.FIELD_TOKEN %}" } }
  const targets = { job: { ...keyed(api.url), submit } }
  const { folder, database, cli } = workspace({ targets })
  // Open all the while, so that the -wal file stays where it can be read.
  const once = await openField({ store: database, targets })
  await once.enqueue({ target: 'job', payload: { n: 1 } })
  const encoded = Buffer.from(`x:${TOKEN}`).toString('base64')
  const error = `no such token: ${TOKEN}, Bearer ${TOKEN}, Basic ${encoded}`
  api.failNext({ status: 401, headers: { 'x-request-id': TOKEN }, body: { error } })
  const env = { FIELD_TOKEN: TOKEN, LOG_LEVEL: 'trace', DEBUG: '1' }
  const worked = await cli(['work', '--drain'], { env })
  expect(api.calls[0]?.headers['authorization']).toBe(`Bearer ${TOKEN}`)
  const shown = await cli(['show', '1', '--json'], { env })
  expect(shown.stdout).toMatch(/no such token: \[redacted\]/)
  await once.backup(join(folder, 'copy.db'))
  const files = [database, `${database}-wal`, join(folder, 'copy.db')].map((file) => readFileSync(file, 'latin1'))
  const printed = [worked, shown].flatMap(({ stdout, stderr }) => [stdout, stderr])
  const everything = [...files, ...printed, JSON.stringify(await once.status())]
  for (const text of everything) {
    expect(text).not.toContain(TOKEN)
    expect(text).not.toContain(encoded)
  }
  expect(files[1]).toContain('no such token')
})
