// What one turn is about, found, locked and returned in one round trip; and what the server does of it by itself.
import { DEADLINES_A_TURN, EXPIRE_A_TURN, LANES_A_TURN, MOVED_A_TURN, PROMOTE_A_TURN } from '../bounds.ts'
import { TICKET_SQL } from './connection.ts'
import { BY_KEY, IN_ORDER } from './plan.ts'
import { CHANGED_STATE } from './save-function.ts'

/** What is locked and not claimed is nobody else's meanwhile. */
const SPARE_HEADS = 8

/** Of these, the requests that nobody else is about, locked. */
const FREE_OF = `
CREATE OR REPLACE FUNCTION $s.free_of(ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql ${BY_KEY} AS $f$
BEGIN
  RETURN CASE WHEN cardinality(ids) = 0 THEN ids
    ELSE ARRAY(SELECT request_id FROM $s.requests WHERE request_id = ANY(ids) FOR UPDATE SKIP LOCKED) END;
END $f$;`

/**
 * First attempts that were accepted, of requests with nothing else to be said: what is most of the work needs no rule but these
 * conditions, and is neither loaded nor written back. Returns those it settled; the others go the long way. Requests before their
 * states, as everybody locks them. IS TRUE keeps the planner from the index of all calls that run.
 */
const SETTLE_PLAINLY = `
CREATE OR REPLACE FUNCTION $s.settle_plainly(given json, now_ms bigint) RETURNS bigint[] LANGUAGE plpgsql ${BY_KEY} AS $f$
DECLARE
  settled bigint[];
  n integer;
BEGIN
  WITH gone AS (
    DELETE FROM $s.requests q USING json_to_recordset(given) AS k (request_id bigint, attempt integer, nonce text), $s.task_state t
      WHERE q.request_id = k.request_id AND q.dedupe <> 'live' AND q.ordering_key IS NULL
        AND t.request_id = k.request_id AND t.attempt = k.attempt AND t.nonce = k.nonce AND (t.state = 'invoking') IS TRUE AND t.attempt = 1
        AND t.cancel_requested = 0 AND NOT EXISTS (SELECT 1 FROM $s.breakers b WHERE b.target = t.target)
      RETURNING q.request_id)
  SELECT COALESCE(array_agg(request_id), '{}') INTO settled FROM gone;
  UPDATE $s.task_state t SET state = 'submitted', task_id = k.task_id, version = t.version + 1, doubtful_attempts = '',
      lease_owner = NULL, lease_until = NULL, ended_at = k.ended_at, next_check_at = k.next_check_at, reason = NULL,
      evidence = k.evidence, frozen = NULL, updated_at = now_ms
    FROM json_to_recordset(given) AS k (request_id bigint, attempt integer, nonce text, task_id text, ended_at bigint,
      next_check_at bigint, evidence text)
    WHERE t.request_id = k.request_id AND k.request_id = ANY(settled) AND t.attempt = k.attempt AND t.nonce = k.nonce
      AND (t.state = 'invoking') IS TRUE AND t.attempt = 1 AND t.cancel_requested = 0;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n <> cardinality(settled) THEN
    RAISE EXCEPTION 'a call was settled by somebody else in between' USING ERRCODE = '${CHANGED_STATE}';
  END IF;
  RETURN settled;
END $f$;`

/**
 * Everything that one turn is about, locked: what it answers, what is due, what it may claim and look into.
 * @param a as `turnArguments` has it; @param plain as `settle_plainly` takes it
 */
const TURN_ROWS = `
CREATE OR REPLACE FUNCTION $s.turn_rows(a json, plain json) RETURNS TABLE (t text, r json) LANGUAGE plpgsql ${IN_ORDER} AS $f$
DECLARE
  now_ms bigint;
  ids bigint[];
  claimed bigint[] := '{}';
  head record;
  are_plain boolean := true;
  served text[];
  lanes text[] := '{}';
  lane text;
  wanted integer;
  slots integer := (a->>'slots')::integer;
  checks integer := (a->>'checks')::integer;
  targets text[] := ARRAY(SELECT json_array_elements_text(a->'targets'));
  answered text[] := ARRAY(SELECT json_array_elements_text(a->'answered'));
  leases boolean := (a->>'leases')::boolean;
  settled bigint[] := '{}';
  through text;
  wraps boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(x::bigint) FROM json_array_elements_text(a->'locks') x;
  now_ms := COALESCE((a->>'now')::bigint, $s.now_ms());
  IF json_array_length(plain) > 0 THEN
    settled := $s.settle_plainly(plain, now_ms);
    RETURN QUERY SELECT 'plain', json_agg(json_build_object('request_id', x)) FROM unnest(settled) x;
  END IF;
  -- What this turn may write of them; of the rest nobody waits for it, so that one target in trouble leaves the others alone.
  PERFORM 1 FROM $s.breakers WHERE target = ANY(answered) OR probe_at <= now_ms ORDER BY target FOR UPDATE;
  PERFORM 1 FROM $s.timed_pauses WHERE "until" <= now_ms OR name = ANY(answered) OR (scope = 'bucket' AND cardinality(answered) > 0)
    ORDER BY scope, name, cause FOR UPDATE;
  RETURN QUERY SELECT * FROM $s.rows_of_targets(false);

  ids := ARRAY(SELECT x::bigint FROM json_array_elements_text(a->'ids') x WHERE x::bigint <> ALL(settled));
  IF leases THEN ids := ids || $s.free_of(ARRAY(SELECT s.request_id FROM $s.task_state s
    WHERE s.state = 'invoking' AND s.lease_until <= now_ms ORDER BY s.lease_until, s.target, s.request_id
    LIMIT ${EXPIRE_A_TURN} FOR UPDATE SKIP LOCKED)); END IF;
  ids := ids || $s.free_of(ARRAY(SELECT w.request_id FROM $s.waiting w
    WHERE w.due_at <= now_ms ORDER BY w.due_at, w.request_id LIMIT ${PROMOTE_A_TURN} FOR UPDATE SKIP LOCKED));
  ids := ids || $s.free_of(ARRAY(SELECT e.request_id FROM $s.expiries e
    WHERE e.expires_at <= now_ms ORDER BY e.expires_at, e.request_id LIMIT ${DEADLINES_A_TURN} FOR UPDATE SKIP LOCKED));
  IF checks > 0 THEN
    ids := ids || $s.free_of(ARRAY(SELECT s.request_id FROM $s.task_state s
      WHERE s.state = 'unknown' AND s.next_check_at <= now_ms AND s.target = ANY(targets)
      ORDER BY s.next_check_at LIMIT checks FOR UPDATE SKIP LOCKED));
    ids := ids || ARRAY(SELECT s.request_id FROM $s.task_state s
      WHERE s.state = 'submitted' AND s.next_check_at <= now_ms AND s.target = ANY(targets)
      ORDER BY s.next_check_at LIMIT checks FOR UPDATE SKIP LOCKED);
    RETURN QUERY SELECT 'target_versions', to_json(v) FROM $s.target_versions v WHERE (v.target, v.version) IN (
      SELECT s.target, s.target_version FROM $s.task_state s WHERE s.request_id = ANY(ids));
  END IF;
  RETURN QUERY SELECT * FROM $s.rows_about(ids, true, true);

  IF slots > 0 THEN
    served := ARRAY(SELECT x FROM unnest(targets) x
      WHERE x NOT IN (SELECT target FROM $s.targets WHERE paused_at IS NOT NULL));
    IF cardinality(served) = 1 THEN
      lanes := served;
    ELSIF cardinality(served) <= ${LANES_A_TURN} THEN
      lanes := ARRAY(SELECT x FROM unnest(served) x WHERE EXISTS (SELECT 1 FROM $s.ready q WHERE q.target = x OFFSET 0));
    ELSE
      lane := a->>'from';
      wraps := false;
      LOOP
        SELECT q.target INTO through FROM $s.ready q WHERE q.target > lane ORDER BY q.target LIMIT 1;
        IF through IS NULL THEN
          EXIT WHEN wraps;
          wraps := true;
          lane := '';
          CONTINUE;
        END IF;
        lane := through;
        EXIT WHEN wraps AND lane > a->>'from';
        IF lane = ANY(served) THEN lanes := lanes || lane; END IF;
        EXIT WHEN cardinality(lanes) >= LEAST(slots, ${LANES_A_TURN});
      END LOOP;
      IF cardinality(lanes) >= LEAST(slots, ${LANES_A_TURN}) THEN
        RETURN QUERY SELECT 'looked', json_build_object('through', lane);
      END IF;
    END IF;
    -- A few more than its share, where others turn out to have less.
    wanted := LEAST(slots, ceil(slots::numeric / GREATEST(1, cardinality(lanes)))::integer + ${SPARE_HEADS});
    FOREACH lane IN ARRAY lanes LOOP
      SELECT * INTO head FROM $s.heads_of(lane, wanted);
      claimed := claimed || head.ids;
      are_plain := are_plain AND head.are_plain;
      RETURN QUERY SELECT 'heads', head.heads;
      RETURN QUERY SELECT 'lane', json_build_object('target', lane, 'found', cardinality(head.ids), 'is_full', head.is_full);
    END LOOP;
    RETURN QUERY SELECT y.t, y.r FROM $s.kept_of(claimed, are_plain) y;
  END IF;

  IF json_array_length(a->'limited') > 0 THEN
    RETURN QUERY SELECT 'invoking', json_build_object('target', s.target, 'rows', COUNT(*)) FROM $s.task_state s
      WHERE s.state = 'invoking' AND s.target = ANY(ARRAY(SELECT json_array_elements_text(a->'limited'))) GROUP BY s.target;
  END IF;
  RETURN QUERY SELECT 'facts', json_build_object(
    'now', now_ms,
    'ticket', (SELECT to_json(x) FROM (SELECT ${TICKET_SQL}) x),
    'waiting', (SELECT MIN(due_at) FROM $s.waiting WHERE due_at > now_ms AND request_id <> ALL(ids)),
    'expiry', (SELECT MIN(expires_at) FROM $s.expiries WHERE expires_at > now_ms AND request_id <> ALL(ids)),
    'lease', CASE WHEN leases THEN (SELECT MIN(lease_until) FROM $s.task_state WHERE state = 'invoking' AND lease_until > now_ms
      AND request_id <> ALL(ids)) END,
    'unknown', (SELECT MIN(next_check_at) FROM $s.task_state WHERE state = 'unknown' AND next_check_at > now_ms AND request_id <> ALL(ids)
      AND target = ANY(targets)),
    'tracked', (SELECT MIN(next_check_at) FROM $s.task_state WHERE state = 'submitted' AND next_check_at > now_ms AND request_id <> ALL(ids)
      AND target = ANY(targets)));
END $f$;`

/** Moves a slice of the rows that an earlier ranking has placed. Returns whether there may be more. */
const MOVE_RANKS = `
CREATE OR REPLACE FUNCTION $s.move_ranks(aged_from bigint) RETURNS boolean LANGUAGE plpgsql ${IN_ORDER} AS $f$
DECLARE
  g record;
  q record;
  seen integer := 0;
BEGIN
  SELECT * INTO g FROM $s.rankings WHERE moved IS NOT NULL ORDER BY target LIMIT 1 FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  FOR q IN SELECT r.group_key, r.rank, r.due_at, r.request_id, COALESCE(r.due_at - r.priority * g.aging_ms + aged_from, -r.priority) AS wanted
    FROM (SELECT *, (SELECT p.priority FROM $s.requests p WHERE p.request_id = x.request_id) AS priority FROM $s.ready x
      WHERE x.target = g.target AND (x.group_key, x.rank, x.due_at, x.request_id) > (g.moved::json->>0, (g.moved::json->>1)::bigint,
        (g.moved::json->>2)::bigint, (g.moved::json->>3)::bigint)
      ORDER BY x.group_key, x.rank, x.due_at, x.request_id LIMIT ${MOVED_A_TURN} FOR UPDATE) r
  LOOP
    UPDATE $s.ready SET rank = q.wanted WHERE request_id = q.request_id AND rank <> q.wanted;
    seen := seen + 1;
  END LOOP;
  IF seen = ${MOVED_A_TURN} THEN
    UPDATE $s.rankings SET moved = json_build_array(q.group_key, q.rank, q.due_at, q.request_id)::text WHERE target = g.target;
  ELSIF g.aging_ms IS NULL THEN
    DELETE FROM $s.rankings WHERE target = g.target;
  ELSE
    UPDATE $s.rankings SET moved = NULL, formers = '[]' WHERE target = g.target;
  END IF;
  RETURN EXISTS (SELECT 1 FROM $s.rankings WHERE moved IS NOT NULL);
END $f$;`

export const TURN_FUNCTIONS: readonly string[] = [FREE_OF, SETTLE_PLAINLY, TURN_ROWS, MOVE_RANKS]
