// A host of its own for one process: a network namespace with two links to ours, one to the database and one to the API, each of which
// can be cut as a cable is. Gone with the test.
import { type ChildProcess, spawn } from 'node:child_process'
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { onTestFinished, type TestContext } from 'vitest'
import { skipBecause, tryCommand } from '../../machine/support/skip.ts'
import { MAIN } from '../../support/run-cli.ts'

/** Set where namespaces are permitted: then a test that finds that they are not has failed. */
const MUST = process.env['ONCEISH_TEST_NETNS'] === '1'

export interface Host {
  /** Our end of its link to the database. */
  readonly database: string
  cutDatabase(): void
  mendDatabase(): void
  /** The command line, in a folder, on that host. */
  start(folder: string, ...args: string[]): ChildProcess & { said(): string }
}

let hosts = 0
const subnet = (process.pid % 120) * 2
/** Of the API, the same for every host: where a call went is a part of what it was. */
const API = `10.78.${subnet}.1`

/** @returns an address of the API. */
export function openApiAddress(context: TestContext): string {
  orSkip(context, tryCommand('ip', 'addr', 'add', `${API}/32`, 'dev', 'lo'))
  onTestFinished(() => ip('addr', 'del', `${API}/32`, 'dev', 'lo'))
  return API
}

export function openHost(context: TestContext): Host {
  const nth = ++hosts
  const name = `once${process.pid % 10_000}-${nth}`
  orSkip(context, tryCommand('ip', 'netns', 'add', name))
  onTestFinished(() => ip('netns', 'del', name))
  const links = { database: `10.77.${subnet}.${nth * 4}`, api: `10.77.${subnet + 1}.${nth * 4}` }
  for (const [kind, network] of Object.entries(links)) {
    const [ours, theirs] = [`${name}${kind[0]}0`, `${name}${kind[0]}1`]
    ip('link', 'add', ours, 'type', 'veth', 'peer', 'name', theirs, 'netns', name)
    ip('addr', 'add', `${next(network, 1)}/30`, 'dev', ours)
    ip('link', 'set', ours, 'up')
    ip('-n', name, 'addr', 'add', `${next(network, 2)}/30`, 'dev', theirs)
    ip('-n', name, 'link', 'set', theirs, 'up')
  }
  ip('-n', name, 'route', 'add', `${API}/32`, 'via', next(links.api, 1))
  const cable = `${name}d0`
  return {
    database: next(links.database, 1),
    cutDatabase: () => ip('link', 'set', cable, 'down'),
    mendDatabase: () => ip('link', 'set', cable, 'up'),
    start: (folder, ...args) => {
      const child = spawn('ip', ['netns', 'exec', name, process.execPath, MAIN, ...args], {
        cwd: folder,
        stdio: 'pipe',
      })
      onTestFinished(() => void child.kill('SIGKILL'))
      let text = ''
      child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      child.stdout.resume()
      return Object.assign(child, { said: () => text })
    },
  }
}

function orSkip(context: TestContext, why: string | null): void {
  if (why === null) return
  if (MUST) throw new Error(`ONCEISH_TEST_NETNS is set, and hosts cannot be made: ${why}`)
  skipBecause(context, why)
}

/** What listens on 127.0.0.1, on another address of ours. @returns the port. */
export async function listenOn(address: string, port: number): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((from) => {
    const to = dial(port, '127.0.0.1')
    for (const socket of [from, to]) {
      sockets.add(socket)
      socket.on('error', () => {})
    }
    from.pipe(to)
    to.pipe(from)
    from.on('close', () => to.destroy())
    to.on('close', () => from.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, address, resolve))
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

function next(network: string, by: number): string {
  const [a, b, c, d] = network.split('.')
  return [a, b, c, Number(d) + by].join('.')
}

function ip(...args: string[]): void {
  const why = tryCommand('ip', ...args)
  if (why !== null) throw new Error(why)
}
