// Schedules on PostgreSQL: the same store, world and watches, on one schema of a server. What differs from a file:
// - A store that is put back is a standby that was promoted too early: what tells is the branch of the server's history, where a file has
//   the record of calls beside it. A copied or moved file (`recover --moved`) is nothing that a server's store can be.
// - Another process is heard of when it says so (NOTIFY), or within a second.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { channelOf } from '../../src/store/postgres/watch.ts'
import type { Store } from '../../src/store/store.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { type Ground, type OpenGround, START } from './ground.ts'
import { openMirror } from './mirror.ts'
import type { Life } from './schedule.ts'
import { createTraffic } from './traffic.ts'

/** As src/store/postgres/watch.ts has it. */
const POLL_MS = 1000

/** It syncs nothing: what is proved here is order, not disks. */
export function startQuickServer(): Promise<PostgresServer> {
  return startPostgres(['fsync=off', 'full_page_writes=off', 'autovacuum=off'].flatMap((flag) => ['-c', flag]))
}

/** The one that the environment names, or one of its own. */
export async function findServer(): Promise<Pick<PostgresServer, 'url' | 'stop'>> {
  const url = process.env['ONCEISH_TEST_POSTGRES_URL']
  return url ? { url, stop: async () => {} } : startQuickServer()
}

/** @param url of a server, whose schemas are the caller's. */
export function serverGround(url: string): OpenGround {
  return async (library, folder): Promise<Ground> => {
    const schema = `simulation_${randomBytes(8).toString('hex')}`
    const given = new URL(url)
    given.searchParams.set('schema', schema)
    // Two that wait for each other are told apart before anybody goes on: the one that came last begins anew.
    given.searchParams.set('options', '-c deadlock_timeout=1ms')
    const location = given.toString()
    const [client, monitor] = [await connect(url), await connect(url)]
    const options = { create: true, now: START, isTimeGiven: true }
    const [inner, watching] = [await library.openStore(location, options), await library.openStore(location, options)]
    const mirror = await openMirror(library, folder, client, schema)
    const traffic = createTraffic(WORLD, monitor, mirror.follow)
    let commits = 0
    inner.onWork(() => {
      commits++
    })
    const hearing = {
      commits: () => commits,
      watching,
      notify: () => client.query(`NOTIFY "${channelOf(`"${schema}"`)}"`),
    }
    watching.watchChanges([])
    await firstHeard(hearing)
    return {
      location,
      store: asked(inner, (work) => traffic.drive(work)),
      storeOf: (life) => ({
        ...asked(inner, (work) => traffic.ask(life, work)),
        watchChanges: (targets) => watchChanges(hearing, (work) => traffic.ask(life, work), targets),
      }),
      turn: (life, input, turn) =>
        life === null ? traffic.drive(() => inner.turn(input), turn) : traffic.ask(life, () => inner.turn(input), turn),
      watch: mirror,
      takesCrowds: true,
      begin: traffic.begin,
      calm: traffic.calm,
      finish: traffic.finish,
      rested: traffic.rested,
      close: async () => {
        traffic.close()
        mirror.close()
        await watching.close()
        await inner.close()
        await client.query(`DROP SCHEMA ${schema} CASCADE`)
        await client.end()
        await monitor.end()
      },
    }
  }
}

/** Who speaks, and never dies. */
const WORLD: Life = { name: 'world', isDead: false, stalledUntil: 0 }

async function connect(url: string): Promise<pg.Client> {
  const types = { getTypeParser: ((oid: number) => (oid === 20 ? Number : pg.types.getTypeParser(oid))) as never }
  const client = new pg.Client({ connectionString: url, types })
  await client.connect()
  return client
}

type Way = <T>(work: () => Promise<T>) => Promise<T>

/** What comes back at once. */
const AT_ONCE: ReadonlySet<string> = new Set(['watchChanges', 'watchCommits', 'onCommit', 'onWork', 'filesOf', 'close'])

/** The same store, with each question going one way. */
function asked(store: Store, way: Way): Store {
  type Method = (...given: unknown[]) => Promise<unknown>
  return Object.fromEntries(
    Object.entries(store).map(([name, value]) => [
      name,
      typeof value !== 'function' || AT_ONCE.has(name)
        ? value
        : (...given: unknown[]) => way(() => (value as Method)(...given)),
    ]),
  ) as unknown as Store
}

interface Hearing {
  /** How many made work for others. */
  readonly commits: () => number
  readonly watching: Store
  readonly notify: () => Promise<unknown>
}

/** As another process asks: only where it was told of work since, or a second has passed in the time of the schedule. */
function watchChanges(
  { commits, watching, notify }: Hearing,
  way: Way,
  targets: readonly string[],
): ReturnType<Store['watchChanges']> {
  const ask = watching.watchChanges(targets)
  let heard = -1
  let askedAt = 0
  return async (now) => {
    if (heard === commits() && Math.abs(now - askedAt) < POLL_MS) return null
    heard = commits()
    askedAt = now
    return way(async () => {
      await told(watching, notify)
      return ask(now)
    })
  }
}

/** A notification that has surely arrived: a real clock, and how fast the news of a commit travels, would not be the same again. */
async function told(watching: Store, notify: () => Promise<unknown>): Promise<void> {
  const heard = new Promise<void>((resolve) => {
    const stop = watching.onWork(() => {
      stop()
      resolve()
    })
  })
  await notify()
  await heard
}

/** Its connection listens. */
async function firstHeard({ watching, notify }: Hearing): Promise<void> {
  let isHeard = false
  const stop = watching.onWork(() => {
    isHeard = true
  })
  await waitFor(() => notify().then(() => isHeard), { what: 'a notification' })
  stop()
}
