// Workers of a fleet: each reaches the database by a way of its own, which a test can cut.
import { randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { type Onceish, openOnceish } from '../../../src/index.ts'
import { composeOnceish, type Seams } from '../../../src/onceish.ts'
import { type Api, configFor, merge, type RawConfig } from '../../support/api.ts'
import { newLocation } from '../../support/engine.ts'
import { type Listening, listen } from '../../support/listen.ts'
import { type PostgresProxy, type ProxyOptions, startProxy } from '../../support/postgres-proxy.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Retries soon, and as often as an outage wants. */
const PATIENT = { maxAttempts: 50 }
const TARGETS = {
  executions: { retry: PATIENT },
  renders: { retry: PATIENT },
  parcels: { retry: PATIENT },
  messages: { retry: PATIENT },
}

export interface Fleet {
  /** Without credentials it would be the store's; not through the proxy. */
  readonly location: string
  readonly proxy: PostgresProxy
  /** Reaches the database whatever happens to the worker. */
  readonly once: Onceish
  /** Of a worker behind the proxy. */
  readonly config: RawConfig
}

/** @param server another than that of the run. */
export async function openFleet(
  api: Api,
  { server, overrides = {}, proxied }: { server?: string; overrides?: RawConfig; proxied?: ProxyOptions } = {},
): Promise<Fleet> {
  const location = server === undefined ? newLocation() : schemaOf(server)
  const proxy = await startProxy(location, proxied)
  const stateFolder = tempDir()
  const configOf = (store: string) => {
    return configFor(api.origin, merge({ targets: TARGETS, worker: { stateFolder }, store }, overrides))
  }
  const once = await openOnceish({ config: configOf(location) })
  onTestFinished(() => once.close())
  return { location, proxy, once, config: configOf(proxy.url) }
}

/** In this process. */
export async function openBehind(config: RawConfig, seams: Seams = {}): Promise<{ once: Onceish; said: Listening }> {
  const said = listen()
  const once = await composeOnceish({ config, log: said.log }, seams)
  onTestFinished(() => once.close())
  return { once, said }
}

export function schemaOf(server: string): string {
  const url = new URL(server)
  url.searchParams.set('schema', `test_${randomBytes(8).toString('hex')}`)
  return url.toString()
}
