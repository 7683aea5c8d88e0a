// One server for all suites of a run, unless the environment names one.
import { startPostgres } from './postgres-server.ts'

let stop: (() => Promise<void>) | null = null

export async function setup(): Promise<void> {
  if (process.env['ONCEISH_TEST_POSTGRES_URL']) return
  const server = await startPostgres(['-c', 'max_connections=200'])
  process.env['ONCEISH_TEST_POSTGRES_URL'] = server.url
  stop = server.stop
}

export async function teardown(): Promise<void> {
  await stop?.()
}
