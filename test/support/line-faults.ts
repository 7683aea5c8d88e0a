// What must hold of the tables of ordering keys after every commit.
import { askStore } from './ask-store.ts'

const QUEUED = 'SELECT request_id FROM ready UNION ALL SELECT request_id FROM waiting'

/** No row comes back of a store that is whole. */
export const LINE_FAULTS = `
  SELECT 'queued without the turn' AS fault, request_id FROM requests WHERE ordering_key IS NOT NULL
    AND request_id IN (${QUEUED}) AND request_id NOT IN (SELECT request_id FROM ordering_heads)
  UNION ALL SELECT 'has the turn and stands in line', request_id FROM ordering_followers
    WHERE request_id IN (SELECT request_id FROM ordering_heads)
  UNION ALL SELECT 'stands in line behind nobody', request_id FROM ordering_followers AS followers
    WHERE NOT EXISTS (SELECT 1 FROM ordering_heads AS heads
      WHERE heads.target = followers.target AND heads.ordering_key = followers.ordering_key)
  UNION ALL SELECT 'is in line and not owed', request_id
    FROM (SELECT request_id FROM ordering_followers UNION ALL SELECT request_id FROM ordering_heads) AS lines
    WHERE request_id NOT IN (SELECT request_id FROM requests)
  UNION ALL SELECT 'has the turn and is not queued', heads.request_id FROM ordering_heads AS heads
    LEFT JOIN task_state ON task_state.request_id = heads.request_id
    WHERE COALESCE(task_state.state, 'queued') = 'queued' AND heads.request_id NOT IN (${QUEUED})
  UNION ALL SELECT 'is due in line and not queued, or the other way', followers.request_id FROM ordering_followers AS followers
    LEFT JOIN task_state ON task_state.request_id = followers.request_id
    WHERE (COALESCE(task_state.state, 'queued') = 'queued') <> (followers.due_at IS NOT NULL)
  UNION ALL SELECT 'is owed and in no line', request_id FROM requests WHERE ordering_key IS NOT NULL
    AND COALESCE((SELECT state FROM task_state WHERE task_state.request_id = requests.request_id), 'queued')
      NOT IN ('dead', 'canceled')
    AND request_id NOT IN (SELECT request_id FROM ordering_followers UNION ALL SELECT request_id FROM ordering_heads)`

export function lineFaults(path: string): Promise<Record<string, unknown>[]> {
  return askStore(path, LINE_FAULTS)
}
