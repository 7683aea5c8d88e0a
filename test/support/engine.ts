// Which engine a conformance suite runs on. One run of the suite is on SQLite files, another on schemas of one PostgreSQL server.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { onTestFinished, test } from 'vitest'
import { tempDir } from './temp-dir.ts'

const IS_POSTGRES = process.env['ONCEISH_TEST_ENGINE'] === 'postgres'

/** What holds of files alone: under the other engine there is no such test. */
export function testOnSqlite(name: string, run: () => Promise<void>): void {
  if (!IS_POSTGRES) test(name, run)
}

/** Where a test's own store is made, which is gone when it ends. */
export function newLocation(): string {
  if (!IS_POSTGRES) return join(tempDir(), 'jobs.db')
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

/** One statement on the store's own tables, past the product: what is written, or what a fault has made of it. */
export async function askStore(location: string, text: string): Promise<Record<string, unknown>[]> {
  if (!/^postgres/.test(location)) {
    const db = new Database(location)
    try {
      const statement = db.prepare(text)
      if (statement.reader) return statement.all() as Record<string, unknown>[]
      statement.run()
      return []
    } finally {
      db.close()
    }
  }
  const url = new URL(location)
  const schema = url.searchParams.get('schema')
  const types = { getTypeParser: ((oid: number) => (oid === 20 ? Number : pg.types.getTypeParser(oid))) as never }
  const client = new pg.Client({ connectionString: location.split('?')[0], types })
  await client.connect()
  try {
    await client.query(`SET search_path = ${schema}`)
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}
