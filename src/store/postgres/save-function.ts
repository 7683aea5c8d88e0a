// The function by which a slice is written back, made from the tables.
import { BY_KEY, IN_ORDER } from './plan.ts'
import { EVENTS, quoted, TABLES, type Table } from './tables.ts'

/** What another transaction has changed in between: the whole is done again. */
export const CHANGED_STATE = 'ON001'

/**
 * Writes what the rules have made of a slice, one kind of change of one table after the other. A row that is not as it was loaded, or is
 * there already, rolls everything back.
 * @param kinds as `TABLE.deleted`; @param counts of rows; @param event_lock taken by whoever writes events, last: their ids are in
 *   the order of commits
 */
export function saveFunction(): string {
  const plain = TABLES.filter(({ name }) => !['group_rotation', 'events'].includes(name))
  const events = namesOf(EVENTS)
  return `
CREATE OR REPLACE FUNCTION $s.save(kinds text[], changes json[], counts integer[], event_lock bigint) RETURNS void LANGUAGE plpgsql
${BY_KEY} AS $f$
DECLARE
  n integer;
  c json;
  x record;
BEGIN
  FOR i IN 1 .. cardinality(kinds) LOOP
    c := changes[i];
    n := counts[i];
    CASE kinds[i]
${plain.map(saveTable).join('')}
    WHEN 'group_rotation.inserted' THEN
      FOR x IN SELECT target, group_key FROM json_to_recordset(c) AS k (target text, group_key text, place bigint) ORDER BY place LOOP
        -- Held until the end: who finds the group without anything ready waits, and then looks again.
        INSERT INTO $s.group_rotation (target, place, group_key) VALUES (x.target, nextval('$s.places'), x.group_key)
          ON CONFLICT (target, group_key) DO UPDATE SET place = group_rotation.place;
      END LOOP;
    WHEN 'group_rotation.left' THEN
      PERFORM $s.leave_rotation(c);
    -- Those that have given a request, in the order in which they go behind the others.
    WHEN 'group_rotation.given' THEN
      FOR x IN SELECT target, group_key FROM ROWS FROM (json_to_recordset(c) AS (target text, group_key text))
          WITH ORDINALITY AS k (target, group_key, nth) ORDER BY nth LOOP
        UPDATE $s.group_rotation SET place = nextval('$s.places') WHERE target = x.target AND group_key = x.group_key;
      END LOOP;
    WHEN 'events.inserted' THEN
      PERFORM pg_advisory_xact_lock(event_lock);
      INSERT INTO $s.events (${events})
        SELECT ${events} FROM ROWS FROM (json_to_recordset(c) AS (${typedNames(EVENTS)}))
          WITH ORDINALITY AS k (${events}, nth) ORDER BY nth;
    END CASE;
  END LOOP;
END $f$;`
}

/** Groups that something ready was taken from leave the rotation, once they are locked, where nothing is left of them. */
export const LEAVE_ROTATION = `
CREATE OR REPLACE FUNCTION $s.leave_rotation(c json) RETURNS void LANGUAGE plpgsql ${IN_ORDER} AS $f$
DECLARE
  lefts json[] := ARRAY(SELECT to_json(k) FROM json_to_recordset(c) AS k (target text, group_key text) ORDER BY target, group_key);
  k json;
BEGIN
  FOREACH k IN ARRAY lefts LOOP
    PERFORM 1 FROM $s.group_rotation g WHERE g.target = k->>'target' AND g.group_key = k->>'group_key' FOR UPDATE;
  END LOOP;
  FOREACH k IN ARRAY lefts LOOP
    IF NOT EXISTS (SELECT 1 FROM $s.ready q WHERE q.target = k->>'target' AND q.group_key = k->>'group_key') THEN
      DELETE FROM $s.group_rotation g WHERE g.target = k->>'target' AND g.group_key = k->>'group_key';
    END IF;
  END LOOP;
END $f$;`

function saveTable(table: Table): string {
  const { name, key, columns, numbered } = table
  const changed = Object.keys(columns).filter((column) => !key.includes(column) && column !== numbered)
  const match = `${key.map((column) => `t.${column} = k.${column}`).join(' AND ')} AND t.xmin::text = k."^"`
  const counted = `GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> counts[i] THEN RAISE EXCEPTION 'a row of ${name} was changed in between' USING ERRCODE = '${CHANGED_STATE}'; END IF;`
  const update =
    changed.length === 0
      ? ''
      : `
    WHEN '${name}.updated' THEN
      UPDATE $s.${name} t SET ${changed.map((column) => `${quoted(column)} = k.${quoted(column)}`).join(', ')}
        FROM json_to_recordset(c) AS k (${typedNames(table)}, "^" text) WHERE ${match};
      ${counted}`
  return `
    WHEN '${name}.deleted' THEN
      DELETE FROM $s.${name} t USING json_to_recordset(c) AS k (${keyTypes(table)}, "^" text) WHERE ${match};
      ${counted}${update}
    WHEN '${name}.inserted' THEN
      INSERT INTO $s.${name} (${namesOf(table)}) SELECT ${namesOf(table)} FROM json_to_recordset(c) AS k (${typedNames(table)});`
}

/** Of all columns but the one that is numbered. */
function namesOf(table: Table): string {
  return columnsOf(table)
    .map(([column]) => quoted(column))
    .join(', ')
}

function typedNames(table: Table): string {
  return columnsOf(table)
    .map(([column, type]) => `${quoted(column)} ${type}`)
    .join(', ')
}

function columnsOf({ columns, numbered }: Table): [column: string, type: string][] {
  return Object.entries(columns).filter(([column]) => column !== numbered)
}

function keyTypes({ key, columns }: Table): string {
  return key.map((column) => `${column} ${columns[column]}`).join(', ')
}
