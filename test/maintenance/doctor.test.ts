// Each check once for good and once for bad, then the whole on files in every condition.
import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { defineTarget } from '../../src/config/code-target.ts'
import { parseConfig } from '../../src/config/options.ts'
import { definitionVersion } from '../../src/config/policy.ts'
import type { TaskState } from '../../src/core/task-state.ts'
import type { Check, DoctorFacts } from '../../src/maintenance/doctor/check.ts'
import { checksOf, diagnose } from '../../src/maintenance/doctor/diagnose.ts'
import type { DatabaseFacts, FolderFacts, StoreInspection, WorkFacts } from '../../src/store/inspection.ts'
import type { TargetStatus } from '../../src/store/views.ts'
import { OPAQUE, openWorld } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'
import { requestsFrom } from './requests.ts'

const ANYTHING = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const
const NOW = 1_000_000_000
const MIB = 1_048_576
const KEYED = {
  submit: { url: 'https://a.example/jobs', headers: { authorization: '{% $env.DOCTOR_KEY %}' }, timeoutMs: 10_000 },
  idempotency: { header: 'K', rememberedFor: '24h' },
  taskId: '{% $response.body.id %}',
}
type RawTarget = Record<string, unknown>
const configOf = (targets: Record<string, RawTarget> = { keyed: KEYED }, store = '/data/jobs.db') =>
  parseConfig({ store, targets }, { path: null, baseDir: '/' })

interface Given {
  readonly targets?: Record<string, RawTarget>
  readonly env?: Record<string, string>
  readonly folder?: Partial<FolderFacts> | null
  readonly mode?: number
  readonly isWritable?: boolean
  readonly database?: Partial<DatabaseFacts>
  readonly work?: Partial<WorkFacts>
  readonly status?: Partial<WorkFacts['status']>
}

function factsOf(given: Given): DoctorFacts {
  const folder: FolderFacts = {
    path: '/data',
    mode: 0o755,
    isWritable: true,
    fileSystemType: 0xef53,
    freeBytes: 2 ** 34,
  }
  const status = {
    states: {},
    targets: {},
    expired: 0,
    oldestReady: null,
    oldestUnknown: null,
    orphans: 0,
    stuckKeys: [],
    ...given.status,
  }
  const database: DatabaseFacts = {
    schemaVersion: 2,
    knownSchemaVersion: 2,
    journalMode: 'wal',
    isSynced: true,
    highWaterAt: NOW - 5000,
    clockAheadMs: 0,
    origin: { kind: 'own' },
    newestRowAt: NOW - 5000,
    bytes: MIB,
    freeBytes: 0,
    log: { bytes: 0, boundBytes: 64 * MIB, isHeld: false },
    integrity: { kind: 'ok' },
    spills: [],
    work: { status, doubt: [], lastChangeAt: {}, ...given.work },
    ...given.database,
  }
  const file = { path: '/data/jobs.db', mode: given.mode ?? 0o100600, bytes: MIB, isWritable: given.isWritable ?? true }
  const inspection: StoreInspection = {
    path: '/data/jobs.db',
    folder: given.folder === null ? null : { ...folder, ...given.folder },
    files: [file],
    engine: 'SQLite 3',
    database: { kind: 'read', ...database },
  }
  return {
    config: configOf(given.targets),
    env: given.env ?? { DOCTOR_KEY: 'secret-value' },
    now: NOW,
    versions: { onceish: '0.1.0', node: 'v20' },
    inspection,
    next: (words) => `onceish ${words}`,
  }
}

function doubtful(patch: Partial<TaskState>, description: object | null = null): WorkFacts['doubt'][number] {
  const row = {
    requestId: 7,
    state: 'unknown',
    target: 'keyed',
    targetVersion: 'v0',
    idempotencyKey: 'key',
    startedAt: NOW - 60_000,
    leaseUntil: null,
    nextCheckAt: NOW + 60_000,
    ...patch,
  } as TaskState
  return { row, description: description === null ? null : JSON.stringify(description) }
}

const present = () => {
  const definition = configOf().targets['keyed'] as object
  return { definition, version: definitionVersion(definition as never) }
}
const earlier = (change: object) => ({ ...present().definition, ...change })
const NOTHING_ELSE = {
  expired: 0,
  oldestReady: [],
  groups: { ready: 0, longest: [], headsOnly: false, oldest: null },
  waits: [],
  breaker: null,
  parked: 0,
  parkedUntil: null,
  stuck: 0,
}
const paused = {
  states: { ready: 3 },
  paused: true,
  pausedAt: 5,
  pausedBy: 'ada',
  pauseReason: 'moving',
  ...NOTHING_ELSE,
}
const owing = {
  states: { ready: 2 },
  paused: false,
  pausedAt: null,
  pausedBy: null,
  pauseReason: null,
  ...NOTHING_ELSE,
}

const dueSince = (since: number) => ({ ...owing, oldestReady: [{ priority: 0, since }] })

test('doubt of code that is not loaded is told before somebody holds it; its rows are routed', async () => {
  const target = defineTarget({ name: 'render', version: '2', payload: ANYTHING, invoke: () => ({ taskId: 't' }) })
  const config = parseConfig({ store: '/data/jobs.db', targets: [target] }, { path: null, baseDir: '/' })
  const description = JSON.stringify({ kind: 'code', name: 'render', version: '1', policy: OPAQUE })
  const row = { requestId: 7, target: 'render', state: 'unknown', idempotencyKey: null, nextCheckAt: NOW } as TaskState
  const status = { targets: { render: { states: { unknown: 1 } } as TargetStatus } }
  const checks = checksOf({ ...factsOf({ status, work: { doubt: [{ row, description }] } }), config })
  const found = Object.fromEntries(checks.map((check) => [check.name, check]))
  expect(found['unroutable']).toMatchObject({ ok: 'ok' })
  expect(found['code_versions']).toMatchObject({
    ok: 'warn',
    found: expect.stringContaining('request 7 of render was called by version 1, the config has 2'),
  })
})

test('where all is well every check says so, and none has advice', () => {
  const checks = checksOf(factsOf({}))
  expect(checks.filter(({ ok, advice }) => ok !== 'ok' || advice !== null)).toEqual([])
  expect(checks.map(({ name }) => name)).toEqual([
    'versions', 'environment', 'file_system', 'disk_space', 'permissions', 'database', 'origin', 'spilled_answers', 'journal', 'clock', 'log', 'size',
    'integrity', 'unroutable', 'paused', 'held', 'leases', 'unworked', 'code_versions', 'closing_windows', 'windows',
  ]) // biome-ignore format: one name after another reads best
})

const BAD: readonly [what: string, name: string, ok: Check['ok'], given: Given, found: RegExp, advice: RegExp][] = [
  ['a newer schema', 'versions', 'fail', { database: { schemaVersion: 3 } }, /schema 3/, /newer onceish/],
  ['an older schema', 'versions', 'warn', { database: { schemaVersion: 1 } }, /schema 1/, /onceish migrate/],
  ['a name that is unset', 'environment', 'warn', { env: {} }, /^not set here: DOCTOR_KEY$/, /set them/],
  ['NFS', 'file_system', 'warn', { folder: { fileSystemType: 0x6969 } }, /NFS/, /local disk/],
  ['SMB', 'file_system', 'warn', { folder: { fileSystemType: 0xfe534d42 } }, /SMB2/, /local disk/],
  ['FUSE', 'file_system', 'warn', { folder: { fileSystemType: 0x65735546 } }, /FUSE/, /local disk/],
  ['9p', 'file_system', 'warn', { folder: { fileSystemType: 0x01021997 } }, /9p/, /local disk/],
  ['an overlay', 'file_system', 'warn', { folder: { fileSystemType: 0x794c7630 } }, /container/, /volume/],
  ['memory', 'file_system', 'warn', { folder: { fileSystemType: 0x01021994 } }, /power cut/, /local disk/],
  ['no folder', 'file_system', 'fail', { folder: null }, /not there/, /"store"/],
  ['little space', 'disk_space', 'warn', { folder: { freeBytes: 100 * MIB } }, /100 MiB free/, /purge/],
  ['no space', 'disk_space', 'fail', { folder: { freeBytes: MIB } }, /1 MiB free/, /purge/],
  ['a file that others read', 'permissions', 'warn', { mode: 0o100644 }, /jobs\.db/, /chmod 600 \/data\/jobs\.db/],
  ['a file not to be written', 'permissions', 'fail', { isWritable: false }, /jobs\.db/, /owner/],
  ['a folder not to be written', 'permissions', 'fail', { folder: { isWritable: false } }, /\/data/, /owner/],
  ['a folder for anybody', 'permissions', 'warn', { folder: { mode: 0o777 } }, /\/data/, /chmod o-w/],
  [
    'a copy put back',
    'origin',
    'fail',
    { database: { origin: { kind: 'restored', why: 'behind', knownUntil: NOW, calledUntil: NOW + 1 } } },
    /put back from a copy/,
    /recover --restored/,
  ],
  [
    'a store at another place',
    'origin',
    'fail',
    { database: { origin: { kind: 'moved', from: '/old/jobs.db' } } },
    /\/old\/jobs\.db/,
    /recover --moved/,
  ],
  [
    'answers that nobody has taken over',
    'spilled_answers',
    'warn',
    { database: { spills: [{ path: '/data/a.ndjson', answers: 3, formerRequests: [] }] } },
    /3 answers.*\/data\/a\.ndjson/,
    /onceish work takes them over/,
  ],
  [
    'answers of before a restore',
    'spilled_answers',
    'warn',
    { database: { spills: [{ path: '/data/a.ndjson', answers: 0, formerRequests: [7, 9] }] } },
    /\/data\/a\.ndjson \(requests 7, 9\)/,
    /read .* before you resolve/,
  ],
  ['another journal', 'journal', 'warn', { database: { journalMode: 'delete' } }, /delete/, /WAL/],
  ['commits that do not wait', 'journal', 'fail', { database: { isSynced: false } }, /less than FULL/, /SQLite/],
  ['a clock behind', 'clock', 'warn', { database: { highWaterAt: NOW + 3_600_000 } }, /1h behind/, /NTP/],
  ['rows of the future', 'clock', 'warn', { database: { newestRowAt: NOW + 3_600_000 } }, /1h in the future/, /NTP/],
  [
    'a log that is held',
    'log',
    'warn',
    { database: { log: { bytes: 65 * MIB, boundBytes: 64 * MIB, isHeld: true } } },
    /65 MiB and a reader/,
    /end the process/,
  ],
  [
    'a log that nobody shrinks',
    'log',
    'warn',
    { database: { log: { bytes: 65 * MIB, boundBytes: 64 * MIB, isHeld: false } } },
    /65 MiB/,
    /worker/,
  ],
  ['much free', 'size', 'warn', { database: { bytes: 900 * MIB, freeBytes: 500 * MIB } }, /500 MiB/, /VACUUM/],
  ['damage', 'integrity', 'fail', { database: { integrity: { kind: 'damaged', found: 'row 7' } } }, /row 7/, /backup/],
  [
    'rows of nobody',
    'unroutable',
    'warn',
    { status: { targets: { gone: owing } } },
    /2 rows.*gone/,
    /list --target gone/,
  ],
  [
    'a pause',
    'paused',
    'warn',
    { status: { targets: { keyed: paused } } },
    /keyed.*ada.*moving.*3/,
    /^onceish resume keyed/,
  ],
  [
    'refused credentials',
    'paused',
    'warn',
    { status: { targets: { keyed: { ...paused, pausedBy: 'worker:a', pauseReason: 'blocked: HTTP 401' } } } },
    /keyed.*blocked: HTTP 401/,
    /^mend the key, restart every worker, then onceish resume keyed$/,
  ],
  ['held rows', 'held', 'warn', { status: { states: { held: 2 } } }, /2 requests held/, /list --state held/],
  [
    'a lease that ended',
    'leases',
    'warn',
    { work: { doubt: [doubtful({ state: 'invoking', leaseUntil: NOW - 120_000 })] } },
    /1 request.*7.*no worker/,
    /onceish work/,
  ],
  [
    'doubt that is overdue',
    'leases',
    'warn',
    { work: { doubt: [doubtful({ nextCheckAt: NOW - 120_000 })] } },
    /1 request/,
    /onceish recover/,
  ],
  [
    'work that nobody does',
    'unworked',
    'warn',
    { status: { targets: { keyed: dueSince(NOW - 1_200_000) } }, work: { lastChangeAt: { keyed: NOW - 1_200_000 } } },
    /keyed \(for 20m\): no worker/,
    /onceish work/,
  ],
  [
    'a window that closes',
    'closing_windows',
    'warn',
    { work: { doubt: [doubtful({ startedAt: NOW - 76_000_000 })] } },
    /7 in \d+m/,
    /onceish recover/,
  ],
  [
    'an unknown memory',
    'windows',
    'warn',
    { targets: { keyed: { ...KEYED, idempotency: { header: 'K' } } } },
    /keyed: nobody says/,
    /rememberedFor/,
  ],
  [
    'a memory shorter than a crash',
    'windows',
    'warn',
    {
      targets: {
        keyed: {
          ...KEYED,
          retry: { maxAttempts: 1 },
          idempotency: { header: 'K', rememberedFor: '100s', margin: '41s' },
        },
      },
    },
    /keyed: a key may be repeated for 59s, .* 1m 10s/,
    /rememberedFor/,
  ],
  [
    'retries of an earlier description beyond its window',
    'windows',
    'warn',
    {
      work: {
        doubt: [
          doubtful(
            {},
            earlier({ retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300_000 }, idempotency: barelyRemembered() }),
          ),
        ],
      },
    },
    /keyed as described earlier \(v0\).*retries can last/,
    /rememberedFor/,
  ],
]

/** A margin of 2.4 hours, and 200 seconds beyond it. */
function barelyRemembered(): object {
  const { idempotency } = configOf().targets['keyed'] as unknown as { idempotency: object }
  return { ...idempotency, rememberedForMs: 8_840_000 }
}

describe('what is wrong is said, with what to do', () => {
  test.each(BAD)('%s (%s)', (_, name, ok, given, found, advice) => {
    const check = checksOf(factsOf(given)).find((one) => one.name === name)
    expect(check).toEqual({
      name,
      ok,
      found: expect.stringMatching(found),
      advice: expect.stringMatching(advice),
    })
  })
})

const FINE: readonly [what: string, name: string, given: Given][] = [
  [
    'a reader that holds back a small log',
    'log',
    { database: { log: { bytes: 5, boundBytes: 64 * MIB, isHeld: true } } },
  ],
  ['a file too large to be looked at', 'integrity', { database: { integrity: { kind: 'skipped', boundBytes: 5 } } }],
  [
    'a target that left without rows',
    'unroutable',
    { status: { targets: { gone: { ...owing, states: { dead: 1 } } } } },
  ],
  ['doubt that a worker will look into', 'leases', { work: { doubt: [doubtful({ nextCheckAt: NOW - 1000 })] } }],
  [
    'doubt of a paused target',
    'leases',
    { work: { doubt: [doubtful({ nextCheckAt: 5 })] }, status: { targets: { keyed: paused } } },
  ],
  ['what has been due for a moment', 'unworked', { status: { targets: { keyed: dueSince(NOW - 60_000) } } }],
  [
    'a target with slow calls',
    'unworked',
    { status: { targets: { keyed: { ...dueSince(5), states: { ready: 2, invoking: 1 } } } } },
  ],
  ['a window that has closed', 'closing_windows', { work: { doubt: [doubtful({ startedAt: 5 })] } }],
  ['a window without a key', 'closing_windows', { work: { doubt: [doubtful({ idempotencyKey: null })] } }],
  [
    'doubt of the present description',
    'windows',
    { work: { doubt: [doubtful({ targetVersion: present().version }, present().definition)] } },
  ],
  [
    'a reference that is only looked up by',
    'windows',
    {
      targets: {
        keyed: {
          ...KEYED,
          submit: { ...KEYED.submit, body: "{% $merge([$payload, { 'ref': $key }]) %}" },
          idempotency: {},
          lookup: { url: 'https://a.example/jobs?ref={% $key %}', taskId: '{% $response.body.id %}' },
        },
      },
    },
  ],
]

describe('and what is well is left in peace', () => {
  test.each(FINE)('%s (%s)', (_, name, given) => {
    expect(checksOf(factsOf(given)).find((check) => check.name === name)).toMatchObject({ ok: 'ok', advice: null })
  })
})

test('names of secrets are said, their values never', () => {
  expect(JSON.stringify(checksOf(factsOf({})))).not.toContain('secret-value')
})

describe('on a file', () => {
  async function look(store: string, isFull = false): Promise<Record<string, Check>> {
    const checks = await diagnose({ config: configOf(undefined, store), isFull })
    return Object.fromEntries(checks.map((check) => [check.name, check]))
  }
  async function filled(): Promise<string> {
    const world = await openWorld()
    await world.store.enqueue(requestsFrom(0, 500), world.clock.now)
    await world.store.close()
    return world.path
  }

  test('that is whole every look at the database is well, and nothing is changed', async () => {
    const path = await filled()
    const checks = await look(path, true)
    for (const name of ['versions', 'database', 'journal', 'log', 'size', 'integrity', 'held', 'leases'])
      expect(checks[name]).toMatchObject({ ok: 'ok' })
    const world = await openWorld({ path })
    expect((await world.store.status()).states).toEqual({ ready: 500 })
    await world.store.close()
  })

  test('that is not there yet: it says so and makes none', async () => {
    const path = join(tempDir(), 'jobs.db')
    for (let looks = 0; looks < 2; looks++) {
      expect((await look(path))['database']).toMatchObject({
        ok: 'warn',
        found: `there is none yet at ${path}`,
        advice: expect.stringContaining('onceish migrate'),
      })
    }
  })

  test('in a folder that is not there', async () => {
    const checks = await look(join(tempDir(), 'nowhere', 'jobs.db'))
    expect(checks['file_system']).toMatchObject({ ok: 'fail' })
    expect(checks['database']).toMatchObject({ ok: 'warn' })
  })

  test('that is no database', async () => {
    const path = join(tempDir(), 'jobs.db')
    writeFileSync(path, 'not a database at all, but long enough to be taken for one'.repeat(100))
    expect((await look(path))['database']).toMatchObject({
      ok: 'fail',
      found: expect.stringMatching(/^STORE_NOT_A_DATABASE/),
    })
  })

  test('that holds other tables', async () => {
    const path = join(tempDir(), 'jobs.db')
    const db = new Database(path)
    db.exec('CREATE TABLE others (id)')
    db.close()
    expect((await look(path))['database']).toMatchObject({
      ok: 'warn',
      found: expect.stringMatching(/no tables of onceish/),
    })
  })

  test('with a damaged page', async () => {
    const path = await filled()
    const file = openSync(path, 'r+')
    for (const page of [12, 16, 20]) writeSync(file, Buffer.alloc(4096, 0xee), 0, 4096, 4096 * page)
    closeSync(file)
    expect((await look(path))['integrity']).toMatchObject({ ok: 'fail', advice: expect.stringContaining('backup') })
  })

  test('that another connection holds for itself', async () => {
    const path = await filled()
    const db = new Database(path)
    onTestFinished(() => void db.close())
    db.pragma('locking_mode = EXCLUSIVE')
    db.exec('BEGIN EXCLUSIVE; COMMIT')
    expect((await look(path))['database']).toMatchObject({ ok: 'fail', found: expect.stringMatching(/^STORE_BUSY/) })
  })

  test('of a newer release, and of an older one', async () => {
    const path = await filled()
    const set = (version: number) => {
      const db = new Database(path)
      db.prepare('UPDATE store SET schema_version = ?').run(version)
      db.close()
    }
    set(999)
    expect((await look(path))['versions']).toMatchObject({ ok: 'fail' })
    set(1)
    const checks = await look(path)
    expect(checks['versions']).toMatchObject({ ok: 'warn' })
    expect(checks['held']).toBeUndefined()
  })

  test('that others can read', async () => {
    const path = await filled()
    chmodSync(path, 0o644)
    expect((await look(path))['permissions']).toMatchObject({ ok: 'warn' })
  })
})
