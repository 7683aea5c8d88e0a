// A store's own tables, whatever the engine.
import Database from 'better-sqlite3'
import pg from 'pg'

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
