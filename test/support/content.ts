// Everything that a store holds, to be compared: every row of every table.
import { askStore } from './ask-store.ts'

const TABLES_OF = {
  sqlite: `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`,
  postgres: `SELECT table_name AS name FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY name`,
}

export async function contentOf(location: string): Promise<string> {
  const tables = await askStore(location, TABLES_OF[/^postgres/.test(location) ? 'postgres' : 'sqlite'])
  const rows: unknown[] = []
  for (const { name } of tables) rows.push([name, await askStore(location, `SELECT * FROM "${name}"`)])
  return JSON.stringify(rows)
}
