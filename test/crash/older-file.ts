// A store as an earlier release has left it: the same rows under schema version 1.
import Database from 'better-sqlite3'
import { CORE_SCHEMA } from '../../src/store/sqlite/migrations/0001-core.ts'
import { putBack } from '../support/store-files.ts'

/** Puts a file of version 1 in the place of the store at `path`, which nobody has open. */
export function turnBackToVersion1(path: string): void {
  const older = new Database(`${path}.older`)
  older.exec(CORE_SCHEMA)
  older.exec(`ATTACH '${path}' AS present`)
  const tables = older
    .prepare(`SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
    .pluck()
    .all() as string[]
  for (const table of tables) {
    const columns = older.prepare(`SELECT name FROM pragma_table_info(?)`).pluck().all(table).join(', ')
    older.exec(`INSERT INTO main.${table} (${columns}) SELECT ${columns} FROM present.${table}`)
  }
  older.exec('UPDATE main.store SET schema_version = 1')
  older.exec('DETACH present')
  older.pragma('journal_mode = WAL')
  older.close()
  putBack(`${path}.older`, path)
}
