// What a store and its copy must have in common, and the look at the copy that finds out.
import Database from 'better-sqlite3'

export interface CopyFacts {
  readonly schemaVersion: number
  readonly incarnation: string
  readonly highWaterAt: number
  /** Rows of each table. */
  readonly rows: Readonly<Record<string, number>>
}

export function factsOf(db: Database.Database): CopyFacts {
  const store = db.prepare('SELECT schema_version, incarnation, high_water_at FROM store WHERE id = 1').get() as {
    schema_version: number
    incarnation: string
    high_water_at: number
  }
  const tables = db
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
    .pluck()
    .all() as string[]
  const count = (table: string) => db.prepare(`SELECT COUNT(*) FROM "${table}"`).pluck().get() as number
  return {
    schemaVersion: store.schema_version,
    incarnation: store.incarnation,
    highWaterAt: store.high_water_at,
    rows: Object.fromEntries(tables.map((table) => [table, count(table)])),
  }
}

/** Opens the copy. @returns what is wrong with it, or null. @throws SqliteError where it cannot even be read. */
export function faultOf(path: string, expected: CopyFacts): string | null {
  const copy = new Database(path, { fileMustExist: true })
  try {
    const integrity = copy.pragma('integrity_check(1)', { simple: true })
    if (integrity !== 'ok') return String(integrity)
    const found = factsOf(copy)
    return JSON.stringify(found) === JSON.stringify(expected)
      ? null
      : `it holds ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`
  } finally {
    copy.close()
  }
}
