// Moves a store from its SQLite file to PostgreSQL: the file is set aside, every row is copied page by page, both sides are read again
// and compared, and only then may anybody work on the copy. It can be killed anywhere: the same order goes on where it was.
import { randomUUID } from 'node:crypto'
import { setImmediate as nextRound } from 'node:timers/promises'
import { systemClock } from '../core/clock.ts'
import { OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, FLAG, FUNCTION, SIGNAL, TEXT } from '../core/given.ts'
import { createRowDigest, type RowDigest } from '../core/row-digest.ts'
import type { CopiedTable, CopyDestination, CopySource, CopyState, SourceFacts } from '../store/copying.ts'
import { openCopy } from '../store/open-store.ts'

/** Which store goes where. */
export interface CopyOptions {
  /** Path of the SQLite file. */
  readonly from: string
  /** A postgres:// URL; `?schema=` names the schema, `onceish` unless said. */
  readonly to: string
  /** Who does it, in events; default `library`. */
  readonly actor?: string
  /** Ends the copying between two pages; the error is its reason, and the same order goes on from there. */
  readonly signal?: AbortSignal
  /** After each page. */
  readonly onProgress?: (progress: CopyProgressReport) => void
}

const FIELDS: Fields<CopyOptions> = { from: TEXT, to: TEXT, actor: TEXT, signal: SIGNAL, onProgress: FUNCTION }

/** How far a copy is. */
export interface CopyProgressReport {
  /** All rows are copied once, then read again on both sides. */
  readonly phase: 'copying' | 'verifying'
  readonly table: string
  readonly doneRows: number
  readonly rows: number
}

/** What a complete and verified copy holds. */
export interface CopyReport {
  readonly from: string
  /** Without credentials. */
  readonly to: string
  /** It was complete before this order. */
  readonly wasComplete: boolean
  /** Rows of each table, and the digest that both sides came to; empty where it was complete before. */
  readonly tables: Readonly<Record<string, { readonly rows: number; readonly digest: string }>>
  readonly rows: number
  /** Rows that an earlier run had copied. */
  readonly resumedAt: number
  readonly ms: number
}

/** Which copy is taken back. */
export interface UndoCopyOptions extends Pick<CopyOptions, 'from' | 'to' | 'actor'> {
  /** Also where the copy may have been worked, or cannot be reached: all that the file owes is then to be looked into first. */
  readonly force?: boolean
}

const UNDO_FIELDS: Fields<UndoCopyOptions> = { from: TEXT, to: TEXT, actor: TEXT, force: FLAG }

/** What became of the file. */
export interface UndoCopyReport {
  readonly from: string
  readonly to: string
  /** Nothing is called from it before a person has said `recover --restored`. */
  readonly mayHaveCalled: boolean
}

/** By how much the server's clock may be behind. */
const CLOCK_TOLERANCE_MS = 1000

/**
 * Copies a whole store, verified on both sides. From its first page on the file is worked by nobody, and the copy by nobody before
 * it is complete.
 * @throws OnceishError STORE_IN_USE while a worker runs, or any process has the file open; COPY_REFUSED, COPY_UNVERIFIED, STORE_*
 */
export async function copyStore(options: CopyOptions): Promise<CopyReport> {
  const startedAt = systemClock.monotonicNow()
  checkedOptions('options of copyStore', options, FIELDS)
  const { source, destination: openDestination } = await openCopy(options.from, options.to)
  try {
    const destination = await openDestination(true)
    try {
      const done = await copyBetween(source, destination, options)
      return { ...done, ms: Math.round(systemClock.monotonicNow() - startedAt) }
    } finally {
      await destination.close()
    }
  } finally {
    source.close()
  }
}

async function copyBetween(
  source: CopySource,
  destination: CopyDestination,
  options: CopyOptions,
): Promise<Omit<CopyReport, 'ms'>> {
  const { tables, location: to } = destination
  const from = source.location
  const before = source.facts(tables)
  const state = await destination.state()
  if (before.setAside !== null && isOf(state, before.setAside.copyId) && state.kind === 'complete')
    return { from, to, wasComplete: true, tables: {}, rows: sum(before.rows), resumedAt: 0 }
  refuseUnfit(state, before, to)
  if (before.setAside === null) {
    await refuseSlowClock(destination, before)
    const order = { copyId: randomUUID(), to, now: systemClock.wallNow(), actor: options.actor ?? 'library' }
    await source.setAside(order)
  }
  const facts = source.facts(tables)
  const { copyId } = facts.setAside as NonNullable<SourceFacts['setAside']>
  const resumedAt = await copyRows(source, destination, { copyId, facts, options })
  const { digests, server } = await verify(source, destination, facts, options)
  await destination.complete(copyId, facts, server)
  return { from, to, wasComplete: false, tables: digests, rows: sum(facts.rows), resumedAt }
}

function isOf(state: CopyState, copyId: string): state is Extract<CopyState, { copyId: string }> {
  return 'copyId' in state && state.copyId === copyId
}

/** Before anything is changed on either side. */
function refuseUnfit(state: CopyState, { setAside, incarnation }: SourceFacts, to: string): void {
  if (state.kind === 'used' || ('wasComplete' in state && state.wasComplete)) {
    throw refused(`${to} was worked on already, and is left as it is: name another schema (?schema=NAME)`)
  }
  if ('from' in state && state.incarnation !== incarnation) {
    throw refused(`${to} holds a copy of another store (${state.from}) that is not complete: name another schema`)
  }
  if (setAside === null || isOf(state, setAside.copyId) || setAside.to === to) return
  throw refused(
    `the file was handed over to ${setAside.to}: go on with that one, or take it back first with --undo --to that one`,
  )
}

/** What is in doubt is judged by the age of its calls: by a clock that is behind they would look younger than they are. */
async function refuseSlowClock(destination: CopyDestination, facts: SourceFacts): Promise<void> {
  if (!facts.hasDoubt) return
  const steadyNow = Math.max(systemClock.wallNow() + facts.clockAheadMs, facts.highWaterAt)
  const behindMs = steadyNow - (await destination.now())
  if (behindMs <= CLOCK_TOLERANCE_MS) return
  throw refused(
    `the clock of ${destination.location} is ${behindMs} ms behind the one by which this store's calls were made, and some of them are in doubt: set the clocks (NTP), or let "onceish recover" settle what is in doubt first. Nothing was changed`,
  )
}

interface Copying {
  readonly copyId: string
  readonly facts: SourceFacts
  readonly options: CopyOptions
}

/** @returns how many rows were there already. */
async function copyRows(
  source: CopySource,
  destination: CopyDestination,
  { copyId, facts, options }: Copying,
): Promise<number> {
  const progress = await destination.begin({ copyId, from: source.location, facts })
  const resumedAt = Object.values(progress).reduce((all, { rows }) => all + rows, 0)
  const tell = progressOf('copying', sum(facts.rows), options)
  tell('', resumedAt)
  for (const table of destination.tables) {
    let key = progress[table.name]?.key ?? null
    for (;;) {
      options.signal?.throwIfAborted()
      const page = source.page(table, key)
      if (page.rows.length === 0) break
      await destination.write(copyId, table.name, key, page)
      tell(table.name, page.rows.length)
      key = page.lastKey
    }
  }
  return resumedAt
}

type Digests = Record<string, { readonly rows: number; readonly digest: string }>

async function verify(
  source: CopySource,
  destination: CopyDestination,
  facts: SourceFacts,
  options: CopyOptions,
): Promise<{ readonly digests: Digests; readonly server: string }> {
  const { tables } = destination
  const tell = progressOf('verifying', 2 * sum(facts.rows), options)
  const own = createDigests(tables)
  for (const table of tables) {
    for (let key: string | null = null; ; ) {
      options.signal?.throwIfAborted()
      const page = source.page(table, key)
      if (page.rows.length === 0) break
      for (const row of page.rows) own.get(table.name)?.add(row)
      tell(table.name, page.rows.length)
      key = page.lastKey
      await nextRound()
    }
  }
  let theirs = createDigests(tables)
  const server = await destination.readAll(
    (table, rows) => {
      options.signal?.throwIfAborted()
      for (const row of rows) theirs.get(table)?.add(row)
      tell(table, rows.length)
    },
    // It may have to begin again.
    () => {
      theirs = createDigests(tables)
    },
  )
  const found = told(theirs)
  const expected = told(own)
  const wrong = tables.filter(({ name }) => {
    const [is, should] = [found[name], expected[name]]
    return is?.rows !== should?.rows || is?.digest !== should?.digest
  })
  if (wrong.length === 0) return { digests: expected, server }
  const words = wrong.map(({ name }) => `${name}: ${expected[name]?.rows} rows, and there ${found[name]?.rows}`)
  throw new OnceishError(
    'COPY_UNVERIFIED',
    `what ${destination.location} holds is not what ${source.location} holds (${words.join('; ')}): nothing works on either; take it back with --undo, then copy again`,
    { details: { expected, found } },
  )
}

function createDigests(tables: readonly CopiedTable[]): ReadonlyMap<string, RowDigest> {
  return new Map(tables.map(({ name }) => [name, createRowDigest()]))
}

function told(digests: ReadonlyMap<string, RowDigest>): Digests {
  return Object.fromEntries([...digests].map(([name, digest]) => [name, { rows: digest.rows, digest: digest.value() }]))
}

function progressOf(phase: CopyProgressReport['phase'], rows: number, { onProgress }: CopyOptions) {
  let doneRows = 0
  return (table: string, more: number) => {
    doneRows += more
    onProgress?.({ phase, table, doneRows, rows })
  }
}

function sum(rows: Readonly<Record<string, number>>): number {
  return Object.values(rows).reduce((all, count) => all + count, 0)
}

function refused(message: string): OnceishError {
  return new OnceishError('COPY_REFUSED', message)
}

/**
 * Lets the file be worked again, and nobody the copy. @throws OnceishError COPY_REFUSED where there is nothing to take back, or the
 * copy may have been worked and that is not `force`d; STORE_IN_USE, STORE_*
 */
export async function undoCopy(options: UndoCopyOptions): Promise<UndoCopyReport> {
  const { from, to, actor = 'library', force = false } = checkedOptions('options of undoCopy', options, UNDO_FIELDS)
  const { source, destination: openDestination } = await openCopy(from, to)
  try {
    const setAside = source.whereTo()
    if (setAside === null) throw refused(`${source.location} was not copied anywhere, or was taken back already`)
    const mayHaveCalled = await giveUp(() => openDestination(false), setAside.copyId, force)
    await source.takeBack({ now: systemClock.wallNow(), actor, mayHaveCalled })
    return { from: source.location, to: setAside.to, mayHaveCalled }
  } finally {
    source.close()
  }
}

async function giveUp(open: () => Promise<CopyDestination>, copyId: string, force: boolean): Promise<boolean> {
  const destination = await open().catch((error: unknown) => {
    if (force) return null
    throw error
  })
  // Nobody can be asked: then it may have been worked.
  if (destination === null) return true
  try {
    return (await destination.giveUp(copyId, force)).mayHaveCalled
  } finally {
    await destination.close()
  }
}
