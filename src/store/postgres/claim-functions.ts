// What one turn may claim: the heads of a lane, locked, with their requests and what is kept of them.
import { BY_KEY, IN_ORDER } from './plan.ts'

/**
 * Heads of a lane, locked, at most so many: by group where its target has groups. What another turn has locked is its own, and of one
 * whose request somebody else is about there is no head. `is_full`: there may be more.
 */
const HEADS_OF = `
CREATE OR REPLACE FUNCTION $s.heads_of(lane text, wanted integer, OUT is_full boolean, OUT ids bigint[], OUT heads json, OUT are_plain boolean)
LANGUAGE plpgsql ${IN_ORDER} AS $f$
DECLARE
  groups text[];
  queued bigint[];
  ranks bigint[];
  marks text[];
BEGIN
  IF NOT EXISTS (SELECT 1 FROM $s.group_rotation g WHERE g.target = lane) THEN
    SELECT array_agg(x.request_id), array_agg(x.rank), array_agg(x.mark) INTO queued, ranks, marks FROM (
      SELECT q.request_id, q.rank, q.xmin::text AS mark FROM $s.ready q WHERE q.target = lane AND q.group_key = ''
        ORDER BY q.rank, q.due_at, q.request_id LIMIT wanted FOR UPDATE SKIP LOCKED) x;
  ELSE
    -- Requests without a group stand together, once there are others beside them.
    INSERT INTO $s.group_rotation (target, place, group_key) SELECT lane, nextval('$s.places'), ''
      WHERE EXISTS (SELECT 1 FROM $s.ready WHERE target = lane AND group_key = '')
        AND NOT EXISTS (SELECT 1 FROM $s.group_rotation WHERE target = lane AND group_key = '')
      ON CONFLICT (target, group_key) DO NOTHING;
    groups := ARRAY(SELECT g.group_key FROM $s.group_rotation g WHERE g.target = lane ORDER BY g.place LIMIT wanted FOR UPDATE SKIP LOCKED);
    DELETE FROM $s.group_rotation g WHERE g.target = lane AND g.group_key = ANY(groups)
      AND NOT EXISTS (SELECT 1 FROM $s.ready q WHERE q.target = lane AND q.group_key = g.group_key OFFSET 0);
    SELECT array_agg(x.request_id), array_agg(x.rank), array_agg(x.mark) INTO queued, ranks, marks
      FROM unnest(groups) AS g (group_key) CROSS JOIN LATERAL (
        SELECT q.request_id, q.rank, q.xmin::text AS mark FROM $s.ready q WHERE q.target = lane AND q.group_key = g.group_key
          ORDER BY q.rank, q.due_at, q.request_id
          LIMIT ceil(wanted::numeric / GREATEST(1, cardinality(groups)))::integer FOR UPDATE SKIP LOCKED) x;
  END IF;
  is_full := COALESCE(cardinality(queued), 0) = wanted;
  SELECT * INTO ids, heads, are_plain FROM $s.head_rows(queued, ranks, marks);
  -- Who has given one goes behind the others.
  are_plain := are_plain AND groups IS NULL;
END $f$;`

/** The requests of what was locked in the queue, locked too. `are_plain`: nothing else is kept of them but their states, where they have any. */
const HEAD_ROWS = `
CREATE OR REPLACE FUNCTION $s.head_rows(queued bigint[], ranks bigint[], marks text[], OUT ids bigint[], OUT heads json, OUT are_plain boolean)
LANGUAGE plpgsql ${BY_KEY} AS $f$
BEGIN
  SELECT COALESCE(array_agg(x.request_id), '{}'), json_agg(x), COALESCE(bool_and(num_nulls(x.expires_at, x.ordering_key, x.group_key) = 3), true)
    INTO ids, heads, are_plain FROM (
      SELECT p.xmin::text AS "^", p.*, k.rank, k.mark AS queue_mark
        FROM unnest(queued, ranks, marks) AS k (request_id, rank, mark) JOIN $s.requests p USING (request_id)
        FOR UPDATE OF p SKIP LOCKED) x;
END $f$;`

/** What is kept of requests that are to be claimed, beside what stands in their heads. */
const KEPT_OF = `
CREATE OR REPLACE FUNCTION $s.kept_of(claimed bigint[], are_plain boolean) RETURNS TABLE (t text, r json) LANGUAGE plpgsql ${BY_KEY} AS $f$
BEGIN
  RETURN QUERY SELECT 'task_state', to_json(x) FROM (SELECT xmin::text AS "^", * FROM $s.task_state
    WHERE request_id = ANY(claimed)) x;
  IF are_plain THEN RETURN; END IF;
  RETURN QUERY SELECT 'expiries', to_json(x) FROM (SELECT e.xmin::text AS "^", e.* FROM $s.requests p
    JOIN $s.expiries e ON e.expires_at = p.expires_at AND e.request_id = p.request_id
    WHERE p.request_id = ANY(claimed) AND p.expires_at IS NOT NULL) x;
  RETURN QUERY SELECT 'group_rotation', to_json(x) FROM (SELECT xmin::text AS "^", g.* FROM $s.group_rotation g
    WHERE (g.target, g.group_key) IN (SELECT q.target, q.group_key FROM $s.ready q WHERE q.request_id = ANY(claimed))) x;
  -- One that dies in its claim may pass the turn of its key on.
  RETURN QUERY SELECT y.t, y.r FROM $s.rows_about(ARRAY(SELECT q.request_id FROM $s.requests q
    WHERE q.request_id = ANY(claimed) AND q.ordering_key IS NOT NULL), false, true) y;
END $f$;`

export const CLAIM_FUNCTIONS: readonly string[] = [HEADS_OF, HEAD_ROWS, KEPT_OF]
