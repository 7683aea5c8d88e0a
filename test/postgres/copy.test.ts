// A store that moves from its file to a server: nothing is lost, nothing is called twice, and nobody works where it is not whole.
import { spawn } from 'node:child_process'
import { once as eventOf } from 'node:events'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type CopyProgressReport, copyStore, defineTarget, openOnceish, undoCopy } from '../../src/index.ts'
import { inspectStore, openStore } from '../../src/store/open-store.ts'
import { openCopySource } from '../../src/store/sqlite/copy-source.ts'
import { askStore } from '../support/ask-store.ts'
import { connect } from '../support/connect.ts'
import { newLocation } from '../support/engine.ts'
import { hashRequest } from '../support/hash-request.ts'
import { countProof } from '../support/proof.ts'
import { workspace } from '../support/run-cli.ts'
import { accepted, answer, openWorld } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'
import { COPIED_TABLES, contentOf, identityOf, richStore, SOME_TIME_AGO, smallStore } from './copied-store.ts'

const script = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const opened = (path: string) => openStore(path, { create: true, now: Date.now() })
const refusal = (code: string, words = '') => ({ code, message: expect.stringContaining(words) })

async function closedStore(requests = 5): Promise<string> {
  const world = await smallStore(requests)
  await world.store.close()
  return world.path
}

describe('what is copied', () => {
  test('50,000 requests in every state are there with all that belongs to them, and each table has been', async () => {
    const from = await richStore(50_000)
    const states = await askStore(from, 'SELECT DISTINCT state FROM task_state')
    expect(states.map(({ state }) => state).toSorted()).toEqual([
      'canceled',
      'dead',
      'expired',
      'failed',
      'held',
      'invoking',
      'lost',
      'queued',
      'submitted',
      'succeeded',
      'unknown',
    ])
    const to = newLocation()
    const told: CopyProgressReport[] = []
    const report = await copyStore({ from, to, onProgress: (progress) => told.push(progress) })
    const [left, right] = [await contentOf(from), await contentOf(to)]
    for (const table of COPIED_TABLES) {
      expect(right[table]?.length, table).toBeGreaterThan(0)
      expect(report.tables[table]).toMatchObject({ rows: left[table]?.length })
      expect(right[table], table).toEqual(left[table])
    }
    expect(await identityOf(to)).toEqual(await identityOf(from))
    expect(report).toMatchObject({ from, wasComplete: false, resumedAt: 0 })
    const copying = told.filter(({ phase }) => phase === 'copying')
    expect(copying[0]?.doneRows).toBe(0)
    expect(copying.at(-1)).toMatchObject({ doneRows: report.rows, rows: report.rows })
    expect(told.at(-1)).toMatchObject({ phase: 'verifying', doneRows: 2 * report.rows })
    // Nothing has left the file.
    expect((await askStore(from, 'PRAGMA integrity_check'))[0]).toEqual({ integrity_check: 'ok' })
  })

  test('numbers, keys, hashes and generations go on from where they were', async () => {
    const world = await smallStore()
    const duplicate = hashRequest({ target: 'keyed', payload: { n: 3 } })
    const first = (await world.turn({ slots: 1 })).calls[0]
    await world.turn({ results: first === undefined ? [] : [answer(first, accepted('task-1'), world.clock.now)] })
    await world.store.pause('keyed', null, 'ada', world.clock.now)
    await world.store.resume('keyed', 'ada', world.clock.now)
    await world.store.close()
    await askStore(world.path, `UPDATE sqlite_sequence SET seq = 500 WHERE name = 'requests'`)
    await askStore(world.path, 'UPDATE logical_hashes SET request_id = NULL, generation = 3 WHERE request_id = 1')
    const events = (await contentOf(world.path))['events']?.length ?? 0
    const to = newLocation()
    await copyStore({ from: world.path, to, actor: 'ada' })
    const copy = await openWorld({ path: to, now: SOME_TIME_AGO + 1000 })
    onTestFinished(() => copy.store.close())
    expect(await copy.enqueue({ n: 3 }, duplicate)).toMatchObject({ kind: 'duplicate', requestId: 4 })
    expect(await copy.enqueue({ n: 99 })).toMatchObject({ kind: 'inserted', requestId: 502 })
    expect(await copy.enqueue({ n: 0 })).toMatchObject({ kind: 'inserted', requestId: 503 })
    expect(await copy.store.get(503)).toMatchObject({ generation: 4 })
    expect(await copy.store.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
    await copy.store.pause('keyed', null, 'ada', copy.clock.now)
    const said = await askStore(to, 'SELECT event_id, kind, actor FROM events ORDER BY event_id')
    expect(said.slice(events)).toEqual([
      { event_id: events + 1, kind: 'store_copied', actor: 'ada' },
      { event_id: events + 2, kind: 'target_paused', actor: 'ada' },
    ])
  })

  test('what was called and not answered is in doubt there, under its key, and called by nobody blindly', async () => {
    const world = await smallStore(1)
    const call = (await world.turn({ slots: 1 })).calls[0]
    await world.store.close()
    const to = newLocation()
    await copyStore({ from: world.path, to })
    const copy = await openWorld({ path: to, now: Date.now(), worker: { name: 'w', boot: 'b2' } })
    onTestFinished(() => copy.store.close())
    expect((await copy.turn({ slots: 10 })).calls).toEqual([])
    expect(await askStore(to, 'SELECT state, idempotency_key FROM task_state')).toEqual([
      { state: 'unknown', idempotency_key: call?.key },
    ])
  })

  test('a page holds a bounded number of characters, however long the payloads are', async () => {
    const world = await smallStore(0)
    for (let n = 0; n < 12; n++) await world.enqueue({ n, text: 'x'.repeat(1_048_576) })
    await world.store.close()
    const source = await openCopySource(world.path)
    const { rows, lastKey } = source.page({ name: 'requests', columns: ['request_id', 'payload'] }, null)
    expect(rows).toHaveLength(4)
    expect(source.page({ name: 'requests', columns: ['request_id', 'payload'] }, lastKey).rows[0]?.[0]).toBe(5)
    source.close()
    const to = newLocation()
    await copyStore({ from: world.path, to })
    expect(await contentOf(to)).toEqual(await contentOf(world.path))
  })

  test('a column that the copy does not know is not left behind in silence', async () => {
    const from = await closedStore()
    await askStore(from, 'ALTER TABLE requests ADD COLUMN of_tomorrow TEXT')
    await expect(copyStore({ from, to: newLocation() })).rejects.toMatchObject(refusal('INVARIANT_BROKEN'))
    await (await opened(from)).close()
  })
})

describe('one of them at a time is worked', () => {
  test('from then on nothing works on the file, also not an older release, and it says where it went', async () => {
    const from = await closedStore()
    const to = newLocation()
    await copyStore({ from, to })
    await expect(opened(from)).rejects.toMatchObject(
      refusal('STORE_COPIED', `handed over to ${to.replace('postgres:test@', '')}`),
    )
    const db = new Database(from)
    expect(db.prepare('SELECT schema_version FROM store').pluck().get()).toBeGreaterThan(1_000_000)
    db.close()
    const { database } = await inspectStore(from, { now: Date.now(), isFull: false })
    expect(database).toMatchObject({ kind: 'unreadable', code: 'STORE_COPIED' })
  })

  test('one that was open before, and came by a way that no lock shows, is refused at its next transaction', async () => {
    const world = await smallStore()
    await askStore(world.path, 'UPDATE store SET schema_version = schema_version + 1000000')
    await expect(world.turn({ slots: 5 })).rejects.toMatchObject(refusal('STORE_COPIED'))
    await expect(world.enqueue({ n: 9 })).rejects.toMatchObject(refusal('STORE_COPIED'))
    const target = defineTarget({ name: 'keyed', version: '1', payload: z.object({}), invoke: () => ({ taskId: 't' }) })
    await askStore(world.path, 'UPDATE store SET schema_version = schema_version - 1000000')
    const once = await openOnceish({ store: world.path, targets: [target] })
    await askStore(world.path, 'UPDATE store SET schema_version = schema_version + 1000000')
    const own = new Database(world.path)
    own.pragma('synchronous = FULL')
    own.exec('BEGIN')
    expect(() => once.enqueueIn(own, { target: 'keyed', payload: {} })).toThrow(
      expect.objectContaining(refusal('STORE_COPIED')),
    )
    own.close()
    await once.close()
    await world.store.close()
  })

  const held: Record<string, (from: string) => Promise<() => Promise<unknown>>> = {
    'an idle worker': (from) => startChild([script('./idle-worker.mjs'), from]),
    'a program that has it open': (from) =>
      startChild([
        '-e',
        `const D = require('better-sqlite3'); const d = new D(process.argv[1]); d.prepare('SELECT * FROM store').get();
         process.stdout.write('open'); setInterval(() => {}, 1000)`,
        from,
      ]),
    'this very process': async (from) => {
      const store = await opened(from)
      return () => store.close()
    },
  }

  /** @returns what kills it. */
  async function startChild(args: readonly string[]): Promise<() => Promise<unknown>> {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    await eventOf(child.stdout, 'data')
    const ended = eventOf(child, 'exit')
    return async () => {
      child.kill('SIGKILL')
      await ended
    }
  }

  test.each(Object.entries(held))('it is refused while %s is there, and nothing has changed', async (_, hold) => {
    const from = await closedStore()
    const to = newLocation()
    const letGo = await hold(from)
    await expect(copyStore({ from, to })).rejects.toMatchObject(refusal('STORE_IN_USE', 'stop every worker'))
    expect(await askStore(from, `SELECT * FROM events WHERE kind = 'store_copied'`)).toEqual([])
    expect(await askStore(to, 'SELECT * FROM copies')).toEqual([])
    await letGo()
    expect(await copyStore({ from, to })).toMatchObject({ wasComplete: false })
  })

  test.each([
    ['a call', 'invoking'],
    ['a look into doubt', 'unknown'],
  ])('it is refused while %s is leased, however its worker ended', async (_, state) => {
    const world = await openWorld({ path: join(tempDir(), 'jobs.db'), now: Date.now() })
    await world.enqueue({ n: 1 })
    await world.turn({ slots: 1, leaseMs: 3_600_000 })
    await world.store.close()
    await askStore(world.path, `UPDATE task_state SET state = '${state}', next_check_at = 1`)
    await expect(copyStore({ from: world.path, to: newLocation() })).rejects.toMatchObject(
      refusal('STORE_IN_USE', '1 requests of'),
    )
    await (await opened(world.path)).close()
  })

  test('until it is complete nothing works on the copy, and who had it open is refused too', async () => {
    const from = await closedStore()
    const to = newLocation()
    const early = await openWorld({ path: to })
    onTestFinished(() => early.store.close())
    const abort = new AbortController()
    const broken = copyStore({
      from,
      to,
      signal: abort.signal,
      onProgress: ({ doneRows }) => doneRows > 0 && abort.abort(new Error('enough')),
    })
    await expect(broken).rejects.toThrow('enough')
    await expect(opened(to)).rejects.toMatchObject(refusal('STORE_COPYING'))
    await expect(early.turn({ slots: 1 })).rejects.toMatchObject(refusal('STORE_COPYING'))
    await expect(early.enqueue({ n: 77 })).rejects.toMatchObject(refusal('STORE_COPYING'))
    await expect(opened(from)).rejects.toMatchObject(refusal('STORE_COPIED'))
    expect(await copyStore({ from, to })).toMatchObject({ resumedAt: 5 })
    expect(await copyStore({ from, to })).toMatchObject({ wasComplete: true })
    expect((await early.turn({ slots: 5 })).calls).toHaveLength(5)
  })
})

describe('it can be killed anywhere', () => {
  test('of a copy that is killed again and again every row is there once', { timeout: 300_000 }, async () => {
    const from = await richStore(4000)
    const to = newLocation()
    for (let kills = 0, isDone = false; !isDone; ) {
      // Later from round to round, so that it comes to its end.
      isDone = await copyUntilKilled(from, to, Math.floor(Math.random() * 12) + 8 * kills)
      // The last of them may come behind its commit.
      isDone ||= (await askStore(to, 'SELECT state FROM copies'))[0]?.['state'] === 'complete'
      if (isDone) break
      kills++
      countProof('kills')
      await expect(opened(from)).rejects.toMatchObject(refusal('STORE_COPIED'))
      await expect(opened(to)).rejects.toMatchObject(refusal('STORE_COPYING'))
    }
    expect(await contentOf(to)).toEqual(await contentOf(from))
    expect(await copyStore({ from, to })).toMatchObject({ wasComplete: true })
  })

  /** @param lines of progress that it lives for. @returns whether it came to its end. */
  async function copyUntilKilled(from: string, to: string, lines: number): Promise<boolean> {
    const child = spawn(process.execPath, [script('./copying.mjs'), from, to], { stdio: ['ignore', 'pipe', 'inherit'] })
    let seen = 0
    child.stdout.on('data', (text: Buffer) => {
      seen += text.toString().split('\n').length - 1
      if (seen > lines) child.kill('SIGKILL')
    })
    const [code, signal] = (await eventOf(child, 'exit')) as [number | null, string | null]
    expect([0, null]).toContain(code)
    return signal === null
  }

  test('killed between the file and the first page, it begins there', async () => {
    const from = await closedStore()
    const source = await openCopySource(from)
    const to = newLocation()
    const shown = `${to.replace('postgres:test@', '')}`
    await source.setAside({ copyId: 'c', to: shown, now: Date.now(), actor: 'test' })
    source.close()
    await expect(opened(from)).rejects.toMatchObject(refusal('STORE_COPIED'))
    await expect(copyStore({ from, to: newLocation() })).rejects.toMatchObject(refusal('COPY_REFUSED', shown))
    expect(await copyStore({ from, to })).toMatchObject({ wasComplete: false, rows: 16 })
  })

  test('two that copy at once do not both write', async () => {
    const from = await closedStore(3000)
    const to = newLocation()
    const copies = [copyStore({ from, to }), copyStore({ from, to })]
    const ended = await Promise.allSettled(copies)
    expect(ended.some(({ status }) => status === 'fulfilled')).toBe(true)
    for (const one of ended)
      if (one.status === 'rejected')
        expect(one.reason).toMatchObject({ code: expect.stringMatching(/^(COPY_REFUSED|STORE_IN_USE)$/) })
    expect(await contentOf(to)).toEqual(await contentOf(from))
  })
})

describe('what is not the same is not worked', () => {
  async function copiedNotVerified(): Promise<{ from: string; to: string }> {
    const from = await closedStore()
    const to = newLocation()
    const abort = new AbortController()
    const broken = copyStore({
      from,
      to,
      signal: abort.signal,
      onProgress: ({ phase }) => phase === 'verifying' && abort.abort(new Error('enough')),
    })
    await expect(broken).rejects.toThrow('enough')
    return { from, to }
  }

  test.each([
    ['a row is gone', 'DELETE FROM ready WHERE request_id = 3'],
    ['a cell is another', `UPDATE requests SET payload = '{}' WHERE request_id = 2`],
    ['a row came', `INSERT INTO kept_payloads VALUES (1, 't', 1, '{}')`],
    [
      'a row stands for another',
      'UPDATE waiting SET rank = 1; UPDATE expiries SET request_id = 4; UPDATE ready SET rank = 7',
    ],
  ])('%s', async (_, harm) => {
    const { from, to } = await copiedNotVerified()
    for (const text of harm.split('; ')) await askStore(to, text)
    await expect(copyStore({ from, to })).rejects.toMatchObject(refusal('COPY_UNVERIFIED', '--undo'))
    await expect(opened(to)).rejects.toMatchObject(refusal('STORE_COPYING'))
    await undoCopy({ from, to })
    expect(await copyStore({ from, to })).toMatchObject({ wasComplete: false })
    expect(await contentOf(to)).toEqual(await contentOf(from))
  })
})

describe('what is refused before anything changes', () => {
  test.each<[string, (from: string, to: string) => unknown, string, string]>([
    [
      'a store put back from a copy',
      async (from) => {
        const { store, turn } = await openWorld({ path: from, now: SOME_TIME_AGO })
        await turn({ slots: 1 })
        await store.close()
        rmSync(`${from}-calls`)
      },
      'STORE_RESTORED',
      'recover --restored',
    ],
    [
      'answers that are not in it yet',
      (from) => writeFileSync(`${from}.spill-abc.ndjson`, ''),
      'COPY_REFUSED',
      'answers that are not in it',
    ],
    [
      'doubt whose windows would look younger by the clock of the server',
      async (from) => {
        const { store, turn } = await openWorld({ path: from, now: SOME_TIME_AGO })
        await turn({ slots: 1 })
        await store.close()
        await askStore(from, 'UPDATE store SET clock_ahead_ms = 60000')
      },
      'COPY_REFUSED',
      'ms behind',
    ],
    [
      'a schema that was worked on',
      async (_, to) => {
        const world = await openWorld({ path: to })
        await world.enqueue({ n: 1 })
        await world.store.close()
      },
      'COPY_REFUSED',
      'worked on already',
    ],
    [
      'a schema that another store is copied to',
      async (_, to) => {
        const other = await closedStore()
        const abort = AbortSignal.abort(new Error('enough'))
        await expect(copyStore({ from: other, to, signal: abort })).rejects.toThrow('enough')
      },
      'COPY_REFUSED',
      'another store',
    ],
    [
      'an older schema',
      (from) => askStore(from, 'UPDATE store SET schema_version = 8'),
      'STORE_SCHEMA_OLDER',
      'migrate',
    ],
    ['a file that is not there', (from) => rmSync(from), 'STORE_NOT_FOUND', 'no database'],
  ])('%s', async (_, arrange, code, words) => {
    const from = await closedStore()
    const to = newLocation()
    await arrange(from, to)
    await expect(copyStore({ from, to })).rejects.toMatchObject(refusal(code, words))
    if (code !== 'STORE_NOT_FOUND')
      expect(await askStore(from, `SELECT * FROM events WHERE kind = 'store_copied'`)).toEqual([])
  })

  test('the way back, and a file for a server', async () => {
    const from = await closedStore()
    await expect(copyStore({ from: newLocation(), to: from })).rejects.toMatchObject(
      refusal('COPY_REFUSED', 'no other way'),
    )
    await expect(copyStore({ from, to: 'copy.db' })).rejects.toMatchObject(refusal('COPY_REFUSED', 'no other way'))
  })

  test('a text that PostgreSQL cannot store is named', async () => {
    const from = await closedStore()
    const to = newLocation()
    const db = new Database(from)
    db.prepare('UPDATE requests SET group_key = ? WHERE request_id = 4').run('a\0b')
    db.close()
    await expect(copyStore({ from, to })).rejects.toMatchObject(
      refusal('COPY_REFUSED', 'group_key in requests (request 4) holds a NUL'),
    )
    await undoCopy({ from, to })
    await (await opened(from)).close()
  })
})

describe('undo', () => {
  test('a copy that was never complete is taken back, and the file is worked as before', async () => {
    const from = await closedStore()
    const to = newLocation()
    const abort = AbortSignal.abort(new Error('enough'))
    await expect(copyStore({ from, to, signal: abort })).rejects.toThrow('enough')
    expect(await undoCopy({ from, to, actor: 'ada' })).toMatchObject({ from, mayHaveCalled: false })
    await expect(opened(to)).rejects.toMatchObject(refusal('STORE_COPYING', 'given up'))
    const world = await openWorld({ path: from, now: SOME_TIME_AGO + 5000 })
    expect((await world.turn({ slots: 5 })).calls).toHaveLength(5)
    await world.store.close()
    await expect(undoCopy({ from, to })).rejects.toMatchObject(refusal('COPY_REFUSED', 'taken back already'))
    expect(await copyStore({ from, to })).toMatchObject({ resumedAt: 0 })
    expect(await contentOf(to)).toEqual(await contentOf(from))
  })

  test('one that may have called takes force, and then nothing is called from the file before a person has spoken', async () => {
    const from = await closedStore()
    const to = newLocation()
    await copyStore({ from, to })
    const copy = await openWorld({ path: to, now: Date.now() })
    onTestFinished(() => copy.store.close())
    const { calls } = await copy.turn({ slots: 2, leaseMs: 3_600_000 })
    await expect(undoCopy({ from, to })).rejects.toMatchObject(
      refusal('COPY_REFUSED', 'complete and may have been worked'),
    )
    await expect(undoCopy({ from, to, force: true })).rejects.toMatchObject(refusal('STORE_IN_USE'))
    await copy.turn({ results: calls.map((call) => answer(call, accepted(`t-${call.requestId}`), copy.clock.now)) })
    expect(await undoCopy({ from, to, force: true })).toMatchObject({ mayHaveCalled: true })
    await expect(copy.turn({ slots: 2 })).rejects.toMatchObject(refusal('STORE_COPYING'))
    await expect(opened(to)).rejects.toMatchObject({
      code: 'STORE_COPYING',
      message: expect.stringMatching(/given up at 20[\dT:.-]+Z: the store is .*jobs\.db again.*another schema/),
    })
    const world = await openWorld({ path: from, now: Date.now() })
    onTestFinished(() => world.store.close())
    await expect(world.turn({ slots: 5 })).rejects.toMatchObject(refusal('STORE_RESTORED'))
    // What was worked is never emptied.
    await world.store.declareOwn('store_restored', { now: world.clock.now, actor: 'test' }, {})
    await world.store.close()
    await expect(copyStore({ from, to })).rejects.toMatchObject(refusal('COPY_REFUSED', 'worked on already'))
  })

  test('where the copy cannot be asked, or is gone, it takes force too', async () => {
    const from = await closedStore()
    const to = newLocation()
    await copyStore({ from, to })
    const nowhere = 'postgres://127.0.0.1:9/none'
    await expect(undoCopy({ from, to: nowhere })).rejects.toMatchObject(refusal('STORE_UNREACHABLE'))
    const other = newLocation()
    await expect(undoCopy({ from, to: other })).rejects.toMatchObject(
      refusal('COPY_REFUSED', 'holds nothing of this copy'),
    )
    // Nothing is made where nothing is.
    expect(
      await askStore(to, `SELECT 1 FROM pg_namespace WHERE nspname = '${new URL(other).searchParams.get('schema')}'`),
    ).toEqual([])
    expect(await undoCopy({ from, to: nowhere, force: true })).toMatchObject({ mayHaveCalled: true })
    const world = await openWorld({ path: from, now: Date.now() })
    await expect(world.turn({ slots: 5 })).rejects.toMatchObject(refusal('STORE_RESTORED'))
    await world.store.close()
  })

  test('an older copy of the file, put in its place, knows nothing of the move and calls nothing', async () => {
    const world = await smallStore()
    await world.turn({ slots: 1 })
    await world.store.close()
    const from = world.path
    const older = join(tempDir(), 'older.db')
    copyFileSync(from, older)
    await copyStore({ from, to: newLocation() })
    copyFileSync(older, from)
    const again = await openWorld({ path: from, now: SOME_TIME_AGO + 60_000 })
    await expect(again.turn({ slots: 5 })).rejects.toMatchObject(refusal('STORE_RESTORED'))
    await again.store.close()
  })
})

describe('the command', () => {
  test('it copies, says so, and is done again without harm; the config then names the server', async () => {
    const { cli, json } = workspace()
    await json(['enqueue', '--target', 'messages', '--payload', '{"n":1}'])
    const to = newLocation()
    const first = await cli(['copy', '--from', 'onceish.db', '--to', to])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(/^copied +.*onceish\.db, which nothing works on any more\n/)
    expect(first.stdout).not.toContain('test@')
    expect((await cli(['copy', '--from', 'onceish.db', '--to', to])).stdout).toContain('before: nothing was done')
    const gone = await cli(['list'])
    expect(gone).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error STORE_COPIED: .*handed over to postgres:/),
    })
    expect(await json(['list', '--store', to])).toMatchObject({ requestId: 1, target: 'messages', state: 'ready' })
    const undo = await cli(['copy', '--from', 'onceish.db', '--to', to, '--undo'])
    expect(undo).toMatchObject({ code: 1, stderr: expect.stringContaining('error COPY_REFUSED') })
    const forced = await cli(['copy', '--from', 'onceish.db', '--to', to, '--undo', '--force'])
    expect(forced).toMatchObject({ code: 0, stdout: expect.stringContaining('recover --restored') })
  })

  test.each([
    [['copy', '--from', 'a.db'], 2, 'USAGE'],
    [['copy', '--from', 'a.db', '--to', 'postgres://x/y', '--force'], 2, 'USAGE'],
    [['copy', '--from', 'a.db', '--to', 'b.db'], 1, 'COPY_REFUSED'],
    [['copy', '--from', 'a.db', '--to', 'postgres://127.0.0.1:9/none'], 1, 'STORE_NOT_FOUND'],
  ])('%j ends with %i', async (args, code, word) => {
    const ended = await workspace(null).cli(args)
    expect(ended).toMatchObject({ code, stderr: expect.stringContaining(`error ${word}:`) })
  })

  test('a signal ends it between two pages with its own exit code, and it goes on', async () => {
    const from = await richStore(6000)
    const to = newLocation()
    const child = spawn(process.execPath, [script('../../dist/cli/main.js'), 'copy', '--from', from, '--to', to], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const client = await connect(to)
    const schema = new URL(to).searchParams.get('schema')
    const begun = async () =>
      client.query(`SELECT 1 FROM ${schema}.copies WHERE progress <> '{}'`).then(
        ({ rows }) => rows.length > 0,
        () => false,
      )
    const ended = eventOf(child, 'exit')
    while (!(await begun())) await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGTERM')
    const [code] = (await ended) as [number]
    expect([0, 143]).toContain(code)
    await copyStore({ from, to })
    expect(await contentOf(to)).toEqual(await contentOf(from))
  })
})
