// A store on a server, as a file beside it: triggers there note every write, and each is done again here in its order. So what watches
// a file watches a server too (store-watch.ts), and asks it without waiting for anybody.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type pg from 'pg'
import { TABLES } from '../../src/store/postgres/tables.ts'
import type { Library } from './library.ts'
import { insertInto, type StoreWatch, watchStore } from './store-watch.ts'

/** What was deleted stays in the way of every look at a queue; new files cost more than a schedule's own deletions. */
const AFRESH_EVERY = 8
const BYTES: readonly string[] = ['hash', 'payload_hash']
/** What a file's store has of it. */
const STORE_COLUMNS = [
  'id',
  'schema_version',
  'namespace',
  'incarnation',
  'high_water_at',
  'has_called',
  'clock_ahead_ms',
] as const
const KEYS = new Map([...TABLES.map(({ name, key }) => [name, key] as const), ['store', ['id']] as const])
/** Number the rows of a table; ids that were given out since a copy was made are given out again, as by a standby that had not heard. */
const SEQUENCES: Readonly<Record<string, string>> = {
  requests: 'request_ids',
  events: 'events_event_id_seq',
  orphans: 'orphans_orphan_id_seq',
}

type Row = Readonly<Record<string, unknown>>

interface Written {
  readonly name: string
  readonly before: Row | null
  readonly after: Row | null
}

export interface Mirror extends StoreWatch {
  /** Does what was committed since the last time. */
  follow(): Promise<void>
}

/** @param s the schema of a store that was just made. */
export async function openMirror(library: Library, folder: string, client: pg.Client, s: string): Promise<Mirror> {
  const path = join(folder, 'mirror.db')
  await (await library.openStore(path, { create: true, now: 0 })).close()
  const watch = watchStore(path)
  const db = new Database(path)
  db.pragma('synchronous = OFF')
  await client.query(noting(s))
  await client.query(emptying(s))

  let emptied = 0

  const apply = db.transaction((writes: readonly Written[]) => {
    for (const { name, before, after } of writes) {
      if (before === null) insertInto(db, name, fitting(name, after ?? {}))
      else if (after === null) db.prepare(`DELETE FROM ${name} WHERE ${whereKey(name)}`).run(keyOf(name, before))
      else update(db, name, before, fitting(name, after))
    }
  }).immediate

  return {
    ...watch,
    follow: async () => {
      const { rows } = await client.query<Written>({
        name: 'follow',
        text: `WITH news AS (DELETE FROM ${s}.written RETURNING *) SELECT name, before, after FROM news ORDER BY nth`,
      })
      if (rows.length > 0) apply(rows)
    },
    empty: async (now) => {
      if (++emptied % AFRESH_EVERY === 0)
        await client.query(`TRUNCATE ${TABLES.map(({ name }) => `${s}.${name}`)}, ${s}.written`)
      await client.query(`SELECT ${s}.empty_all($1)`, [now])
      watch.empty(now)
    },
    putBack: async (copy) => {
      await client.query('BEGIN')
      await client.query(`SELECT ${s}.empty_all(0)`)
      for (const { name } of TABLES) await fillTable(client, s, name, copy.get(name) ?? [])
      const numbers = copy.get('sqlite_sequence') as readonly { name: string; seq: number }[]
      for (const { name, seq } of numbers)
        if (SEQUENCES[name] !== undefined) await client.query(`SELECT setval('${s}.${SEQUENCES[name]}', $1)`, [seq])
      const [store] = copy.get('store') as readonly Row[]
      // As a standby that was promoted before it had heard of what came after: it is on a branch of its own.
      await client.query(
        `UPDATE ${s}.store SET high_water_at = $1, has_called = $2, clock_ahead_ms = $3, incarnation = $4, timeline = 'another'`,
        [store?.['high_water_at'], store?.['has_called'], store?.['clock_ahead_ms'], store?.['incarnation']],
      )
      await client.query(`DELETE FROM ${s}.written`)
      await client.query('COMMIT')
      watch.putBack(copy)
    },
    close: () => {
      db.close()
      watch.close()
    },
  }
}

async function fillTable(client: pg.Client, s: string, name: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  const text = JSON.stringify(rows, (_, value: unknown) => {
    const bytes = value as { type?: unknown; data?: unknown } | null
    return bytes?.type === 'Buffer' ? `\\x${Buffer.from(bytes.data as number[]).toString('hex')}` : value
  })
  await client.query(`INSERT INTO ${s}.${name} SELECT * FROM json_populate_recordset(NULL::${s}.${name}, $1)`, [text])
}

function update(db: Database.Database, name: string, before: Row, after: Row): void {
  const columns = Object.keys(after)
  const { changes } = db
    .prepare(
      `UPDATE ${name} SET ${columns.map((column) => `"${column}" = :${column}`).join(', ')} WHERE ${whereKey(name)}`,
    )
    .run({ ...after, ...keyOf(name, before) })
  if (changes !== 1) throw new Error(`the mirror has no such row of ${name}`)
}

function whereKey(name: string): string {
  return (KEYS.get(name) ?? []).map((column) => `${column} = :key_${column}`).join(' AND ')
}

function keyOf(name: string, row: Row): Row {
  const fit = fitting(name, row)
  return Object.fromEntries((KEYS.get(name) ?? []).map((column) => [`key_${column}`, fit[column]]))
}

/** As the file has it. */
function fitting(name: string, row: Row): Row {
  if (name === 'store') return Object.fromEntries(STORE_COLUMNS.map((column) => [column, row[column]]))
  if (name !== 'logical_hashes') return row
  const bytes = (value: unknown) => (typeof value === 'string' ? Buffer.from(value.slice(2), 'hex') : value)
  return { ...row, ...Object.fromEntries(BYTES.map((column) => [column, bytes(row[column])])) }
}

/** Every write of a row, in the order in which they were done. */
function noting(s: string): string {
  const triggers = [...KEYS.keys()].map(
    (name) =>
      `CREATE TRIGGER noting AFTER INSERT OR UPDATE OR DELETE ON ${s}.${name} FOR EACH ROW EXECUTE FUNCTION ${s}.note();`,
  )
  return `CREATE UNLOGGED TABLE ${s}.written (nth bigint GENERATED ALWAYS AS IDENTITY, name text NOT NULL, before json, after json);
    CREATE FUNCTION ${s}.note() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
      INSERT INTO ${s}.written (name, before, after) VALUES (TG_TABLE_NAME, CASE WHEN TG_OP <> 'INSERT' THEN to_json(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN to_json(NEW) END);
      RETURN NULL;
    END $f$;
    ${triggers.join('\n')}`
}

/** As a schema that was just made. */
function emptying(s: string): string {
  const sequences = [...Object.values(SEQUENCES), 'places']
  return `CREATE FUNCTION ${s}.empty_all(now bigint) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN
      ${TABLES.map(({ name }) => `DELETE FROM ${s}.${name};`).join('\n')}
      ${sequences.map((name) => `PERFORM setval('${s}.${name}', 1, false);`).join('\n')}
      UPDATE ${s}.store SET high_water_at = now, has_called = 0, clock_ahead_ms = 0, incarnation = gen_random_uuid()::text,
        system_identifier = here.system_identifier, timeline = here.timeline FROM ${s}.timeline() here;
      DELETE FROM ${s}.written;
    END $f$;`
}
