// Everything that a store's file holds, to be compared: every row of every table.
import Database from 'better-sqlite3'

export function contentOf(path: string): string {
  const db = new Database(path, { readonly: true })
  const tables = db.prepare(`SELECT name FROM sqlite_master WHERE type = 'table'`).pluck().all() as string[]
  const rows = tables.map((name) => [name, db.prepare(`SELECT * FROM "${name}"`).all()])
  db.close()
  return JSON.stringify(rows)
}
