// The functions of the schema. One runs in one round trip, and each of its statements sees what was committed before it: so it can wait
// for a lock first and read after. They are made anew with every schema version.
import { CLAIM_FUNCTIONS } from './claim-functions.ts'
import { BRANCH_SQL } from './commit-fate.ts'
import { BY_KEY, IN_ORDER } from './plan.ts'
import { LEAVE_ROTATION, saveFunction } from './save-function.ts'
import { TURN_FUNCTIONS } from './turn-functions.ts'

/** How many behind the head of an ordering key are looked at: a transaction passes its turn on twice at most. */
const FOLLOWERS_SEEN = 4

/** Statements, in order. @param s the schema, quoted. */
export function functionsSql(s: string): readonly string[] {
  const texts = [
    NOW_MS,
    LEDGER_HASH,
    TIMELINE,
    ROWS_OF,
    NEXT_IN_LINE,
    ROWS_ABOUT,
    ROWS_OF_TARGETS,
    ...CLAIM_FUNCTIONS,
    ...TURN_FUNCTIONS,
    TAKE_IDS,
    ENQUEUE_ROWS,
    DETAIL_ROWS,
    LEAVE_ROTATION,
    saveFunction(),
  ]
  return [dropFormer(s, texts), ...texts.map((text) => text.replaceAll('$s', s))]
}

/** Those of an older version, whose results may be of another type. */
function dropFormer(s: string, texts: readonly string[]): string {
  const names = texts.map((text) => `'${/FUNCTION \$s\.(\w+)/.exec(text)?.[1]}'`)
  return `
DO $f$
DECLARE
  former regprocedure;
BEGIN
  FOR former IN SELECT oid FROM pg_proc
      WHERE pronamespace = to_regnamespace('${s.replaceAll("'", "''")}') AND proname IN (${names.join(', ')}) LOOP
    EXECUTE 'DROP FUNCTION ' || former;
  END LOOP;
END $f$;`
}

const NOW_MS = `
CREATE OR REPLACE FUNCTION $s.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
$f$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $f$;`

/** As `ledgerHashOf` has it. */
const LEDGER_HASH = `
CREATE OR REPLACE FUNCTION $s.ledger_hash(target text, logical_hash text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE WHEN logical_hash ~ '^v1:[0-9a-f]{64}$' THEN decode(substr(logical_hash, 4), 'hex')
    ELSE sha256('given'::bytea || decode('00', 'hex') || convert_to(to_json(target)::text, 'UTF8') || decode('00', 'hex')
      || convert_to(logical_hash, 'UTF8')) END
$f$;`

/** Which server this is, and on which branch of its history; a standby knows it from its last checkpoint. */
const TIMELINE = `
CREATE OR REPLACE FUNCTION $s.timeline() RETURNS TABLE (system_identifier text, timeline text) LANGUAGE sql VOLATILE AS $f$
  SELECT system_identifier::text, CASE WHEN pg_is_in_recovery()
      THEN (SELECT lpad(upper(to_hex(timeline_id)), 8, '0') FROM pg_control_checkpoint())
      ELSE ${BRANCH_SQL} END
    FROM pg_control_system()
$f$;`

/** Rows of requests as they are, by id, with the queue, their hashes, orphans and kept payloads. */
const ROWS_OF = `
CREATE OR REPLACE FUNCTION $s.rows_of(ids bigint[]) RETURNS TABLE (t text, r json) LANGUAGE plpgsql ${BY_KEY} AS $f$
BEGIN
  RETURN QUERY SELECT 'requests', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.requests WHERE request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'task_state', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.task_state WHERE request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'ready', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.ready WHERE request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'waiting', to_json(x) FROM (SELECT w.xmin::text AS "^", w.* FROM $s.requests q
    JOIN $s.waiting w ON w.due_at = q.due_at AND w.request_id = q.request_id WHERE q.request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'expiries', to_json(x) FROM (SELECT e.xmin::text AS "^", e.* FROM $s.requests q
    JOIN $s.expiries e ON e.expires_at = q.expires_at AND e.request_id = q.request_id
    WHERE q.request_id = ANY(ids) AND q.expires_at IS NOT NULL) x;
  RETURN QUERY SELECT 'orphans', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.orphans WHERE request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'kept_payloads', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.kept_payloads WHERE request_id = ANY(ids)) x;
  RETURN QUERY SELECT 'logical_hashes', to_json(x) FROM (SELECT h.xmin::text AS "^", h.* FROM (
      SELECT $s.ledger_hash(target, logical_hash) AS hash FROM $s.requests
        WHERE request_id = ANY(ids)
      UNION SELECT $s.ledger_hash(target, logical_hash) FROM $s.task_state WHERE request_id = ANY(ids)) k
    JOIN $s.logical_hashes h USING (hash)) x;
END $f$;`

/** Of each line the first behind its head that are not among `but`. */
const NEXT_IN_LINE = `
CREATE OR REPLACE FUNCTION $s.next_in_line(targets text[], keys text[], but bigint[]) RETURNS bigint[] LANGUAGE plpgsql
${IN_ORDER} AS $f$
BEGIN
  RETURN ARRAY(SELECT f.request_id FROM unnest(targets, keys) AS k (target, ordering_key)
    CROSS JOIN LATERAL (SELECT request_id FROM $s.ordering_followers WHERE target = k.target AND ordering_key = k.ordering_key
      AND request_id <> ALL(but) ORDER BY request_id LIMIT ${FOLLOWERS_SEEN}) f);
END $f$;`

/**
 * As `rows_of`, with whoever stands at the head of their ordering keys, and the first of the others behind it: whoever may have the turn once
 * all of `ids` have left. `lock`: nobody else changes them until the transaction ends; lines first, then requests in the order of ids,
 * so that two who want the same wait and do not deadlock.
 */
const ROWS_ABOUT = `
CREATE OR REPLACE FUNCTION $s.rows_about(ids bigint[], lock boolean, neighbours boolean) RETURNS TABLE (t text, r json)
LANGUAGE plpgsql ${BY_KEY} AS $f$
DECLARE
  targets text[];
  keys text[];
  behind bigint[] := '{}';
  beside bigint[] := '{}';
BEGIN
  IF cardinality(ids) = 0 THEN RETURN; END IF;
  SELECT array_agg(k.target), array_agg(k.ordering_key) INTO targets, keys FROM (
    SELECT DISTINCT target, ordering_key FROM $s.requests WHERE request_id = ANY(ids) AND ordering_key IS NOT NULL) k;
  IF keys IS NOT NULL THEN
    IF lock THEN
      PERFORM 1 FROM unnest(targets, keys) AS k (target, ordering_key) JOIN $s.ordering_heads h USING (target, ordering_key)
        ORDER BY h.target, h.ordering_key FOR UPDATE OF h;
    END IF;
    behind := $s.next_in_line(targets, keys, ids);
    RETURN QUERY SELECT 'ordering_heads', to_json(x) FROM (SELECT h.xmin::text AS "^", h.*
      FROM unnest(targets, keys) AS k (target, ordering_key) JOIN $s.ordering_heads h USING (target, ordering_key)) x;
    RETURN QUERY SELECT 'ordering_followers', to_json(x) FROM (SELECT f.xmin::text AS "^", f.* FROM $s.requests q
      JOIN $s.ordering_followers f USING (target, ordering_key, request_id) WHERE q.request_id = ANY(ids || behind)) x;
    IF neighbours THEN
      beside := behind || ARRAY(SELECT h.request_id FROM unnest(targets, keys) AS k (target, ordering_key)
        JOIN $s.ordering_heads h USING (target, ordering_key) WHERE h.request_id <> ALL(ids));
    END IF;
  END IF;
  IF lock THEN
    PERFORM 1 FROM $s.requests WHERE request_id = ANY(ids || beside) ORDER BY request_id FOR UPDATE;
    PERFORM 1 FROM $s.task_state WHERE request_id = ANY(ids || beside) ORDER BY request_id FOR UPDATE;
  END IF;
  RETURN QUERY SELECT * FROM $s.rows_of(ids || beside);
END $f$;`

/** What holds targets back, and how they are ranked. */
const ROWS_OF_TARGETS = `
CREATE OR REPLACE FUNCTION $s.rows_of_targets(lock boolean) RETURNS TABLE (t text, r json) LANGUAGE plpgsql AS $f$
BEGIN
  IF lock THEN
    PERFORM 1 FROM $s.breakers ORDER BY target FOR UPDATE;
    PERFORM 1 FROM $s.timed_pauses ORDER BY scope, name, cause FOR UPDATE;
  END IF;
  RETURN QUERY SELECT 'store', to_json(x) FROM (SELECT *, $s.now_ms() AS now FROM $s.store) x
    UNION ALL SELECT 'targets', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.targets) x
    UNION ALL SELECT 'buckets', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.buckets) x
    UNION ALL SELECT 'bucket_members', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.bucket_members) x
    UNION ALL SELECT 'timed_pauses', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.timed_pauses) x
    UNION ALL SELECT 'breakers', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.breakers) x
    UNION ALL SELECT 'rankings', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.rankings) x;
END $f$;`

const IDS_TAKEN = 'ON002'

/** So many ids one after the other. The lock goes with the block that is rolled back, however it ends; a sequence is not rolled back. */
const TAKE_IDS = `
CREATE OR REPLACE FUNCTION $s.take_ids(count bigint, lock bigint) RETURNS bigint LANGUAGE plpgsql AS $f$
DECLARE
  first bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(lock);
  first := nextval('$s.request_ids');
  IF count > 1 THEN PERFORM setval('$s.request_ids', first + count - 1); END IF;
  RAISE EXCEPTION 'the ids are taken' USING ERRCODE = '${IDS_TAKEN}';
EXCEPTION
  WHEN SQLSTATE '${IDS_TAKEN}' THEN RETURN first;
END $f$;`

/** @param a {hashes, keys, lock}: what the ledger knows of them, who holds them, and whose turn it is in their lines. */
const ENQUEUE_ROWS = `
CREATE OR REPLACE FUNCTION $s.enqueue_rows(a json) RETURNS TABLE (t text, r json) LANGUAGE plpgsql ${BY_KEY} AS $f$
DECLARE
  hashes bytea[] := ARRAY(SELECT x::bytea FROM json_array_elements_text(a->'hashes') x);
BEGIN
  PERFORM 1 FROM $s.ordering_heads h WHERE (h.target, h.ordering_key) IN (
    SELECT k.target, k.ordering_key FROM json_to_recordset(a->'keys') AS k (target text, ordering_key text))
    ORDER BY h.target, h.ordering_key FOR UPDATE;
  PERFORM 1 FROM $s.logical_hashes WHERE hash = ANY(hashes) ORDER BY hash FOR UPDATE;
  RETURN QUERY SELECT 'store', to_json(x) FROM (SELECT *, $s.now_ms() AS now FROM $s.store) x;
  RETURN QUERY SELECT 'rankings', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.rankings) x;
  RETURN QUERY SELECT 'ordering_heads', to_json(x) FROM (SELECT h.xmin::text AS "^", h.* FROM $s.ordering_heads h
    WHERE (h.target, h.ordering_key) IN (
      SELECT k.target, k.ordering_key FROM json_to_recordset(a->'keys') AS k (target text, ordering_key text))) x;
  RETURN QUERY SELECT 'logical_hashes', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.logical_hashes WHERE hash = ANY(hashes)) x;
  RETURN QUERY SELECT y.t, y.r FROM $s.rows_about(
    ARRAY(SELECT request_id FROM $s.logical_hashes WHERE hash = ANY(hashes) AND request_id IS NOT NULL), false, false) y
    WHERE y.t IN ('requests', 'task_state', 'ready', 'waiting', 'ordering_followers');
  RETURN QUERY SELECT 'ids', json_build_object('first', $s.take_ids(cardinality(hashes), (a->>'lock')::bigint));
END $f$;`

const DETAIL_ROWS = `
CREATE OR REPLACE FUNCTION $s.detail_rows(id bigint) RETURNS TABLE (t text, r json) LANGUAGE plpgsql ${BY_KEY} AS $f$
BEGIN
  RETURN QUERY SELECT * FROM $s.rows_about(ARRAY[id], false, true);
  RETURN QUERY SELECT 'kept_payloads', to_json(x) FROM (SELECT * FROM $s.kept_payloads WHERE request_id = id) x;
  RETURN QUERY SELECT 'events', to_json(x) FROM (SELECT * FROM $s.events WHERE request_id = id ORDER BY event_id) x;
  RETURN QUERY SELECT 'target_versions', to_json(v) FROM $s.target_versions v JOIN $s.task_state s
    ON s.target = v.target AND s.target_version = v.version WHERE s.request_id = id;
END $f$;`
