// Which engine a conformance suite runs on. One run of the suite is on SQLite files, another on schemas of one PostgreSQL server.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import pg from 'pg'
import { onTestFinished, test } from 'vitest'
import { tempDir } from './temp-dir.ts'

export const IS_POSTGRES = process.env['ONCEISH_TEST_ENGINE'] === 'postgres'

/** What holds of files alone: under the other engine there is no such test. */
export function testOnSqlite(name: string, run: () => Promise<void>): void {
  if (!IS_POSTGRES) test(name, run)
}

/** Where a test's own store is made, which is gone when it ends. @param file of the engine that has one. */
export function newLocation(file = () => join(tempDir(), 'jobs.db')): string {
  if (!IS_POSTGRES) return file()
  const url = new URL(process.env['ONCEISH_TEST_POSTGRES_URL'] ?? '')
  const schema = `test_${randomBytes(8).toString('hex')}`
  url.searchParams.set('schema', schema)
  onTestFinished(() => dropSchema(url.toString(), schema))
  return url.toString()
}

async function dropSchema(url: string, schema: string): Promise<void> {
  const client = new pg.Client(url.split('?')[0])
  await client.connect()
  await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await client.end()
}
