// Most turns only claim requests that were never called. Their few statements are answered from the rows as they were loaded, without a
// database in memory; with any other statement the turn begins again on the slice.
import type { Statements } from '../sqlite/statements.ts'
import type { Cell, Changes, Loaded, Row } from './slice.ts'

/** With rows of any other table there is more to a turn than this. */
const PLAIN: ReadonlySet<string> = new Set([
  'store',
  'facts',
  'plain',
  'lane',
  'looked',
  'targets',
  'requests',
  'ready',
])

/** As `insertInvoking` takes them. */
const CLAIMED = [
  'request_id', 'target', 'target_version', 'request_id', 'priority', 'nonce', 'generation', 'idempotency_key', 'lease_owner',
  'lease_until', 'started_at', 'frozen', 'created_at', 'updated_at', 'expires_at',
] as const // biome-ignore format: the order is the statement's
/** As it says, and as the columns are by default. */
const FIRST_CALL: Row = {
  state: 'invoking', version: 1, attempt: 1, attempts: 1, doubtful_attempts: '1', replays: 0, backoff_step: 0, executed: 0,
  cancel_requested: 0, abandoned: 0, is_end_observed: 0, misses: 0,
} // biome-ignore format: one column after another reads best

/** @returns null: it takes a slice. */
export function runPlainly<T>(
  loaded: Loaded,
  work: (sql: Statements) => T,
): { readonly made: T; readonly changes: Changes } | null {
  for (const table of loaded.keys()) if (!PLAIN.has(table)) return null
  const queue = queueOf(loaded)
  try {
    const made = work(queue.sql)
    return { made, changes: queue.changes() }
  } catch (error) {
    if (error instanceof NotPlain) return null
    throw error
  }
}

class NotPlain extends Error {}

const OTHERS = new Proxy({}, { get: (_, name) => refuse(name) })

function refuse(name: string | symbol): never {
  throw new NotPlain(String(name))
}

function queueOf(loaded: Loaded) {
  const requests = new Map((loaded.get('requests') ?? []).map((row) => [row['request_id'], row]))
  const ready = [...(loaded.get('ready') ?? [])].sort(compare)
  const taken = new Set<Row>()
  const claimed: Row[] = []

  const none = { all: () => [], get: () => undefined, iterate: () => [].values() }
  const known = {
    breakers: none,
    timedPauses: none,
    expiredLeases: none,
    dueWaiting: none,
    dueUnknown: none,
    dueTracked: none,
    nextWaitingAt: none,
    nextExpiryAt: none,
    nextUnknownAt: none,
    nextTrackedAt: none,
    isGrouped: { get: () => 0 },
    // Not of the slice's: the store's row is not written with it.
    raiseHighWater: { run: () => ({ changes: 1 }) },
    pausedTargets: {
      all: () => (loaded.get('targets') ?? []).filter((row) => row['paused_at'] != null).map((row) => row['target']),
    },
    nextLane: {
      get: (after: string) =>
        least(ready.flatMap(({ target }) => ((target as string) > after ? [target as string] : []))),
    },
    laneHead: {
      all: (target: string, group: string, rank: number, due_at: number, request_id: number, most: number) => {
        const from = { rank, due_at, request_id }
        return ready.filter((row) => isOf(row, target, group) && compare(row, from) > 0).slice(0, most)
      },
    },
    claimable: {
      get: (id: number) => {
        const row = requests.get(id)
        if (row === undefined) return undefined
        const { logical_hash, priority, generation, created_at, payload, expires_at = null } = row
        const uncalled = [null, null, null, null, null, null]
        return [logical_hash, priority, generation, created_at, payload, ...uncalled, expires_at]
      },
    },
    insertInvoking: {
      run: (...cells: Cell[]) => {
        const row: Record<string, Cell> = { ...FIRST_CALL }
        for (const [at, column] of CLAIMED.entries()) if (cells[at] !== null) row[column] = cells[at] as Cell
        row['logical_hash'] = requests.get(cells[0] as number)?.['logical_hash'] as Cell
        claimed.push(row)
        return { changes: 1 }
      },
    },
    deleteReadyThrough: {
      run: (target: string, group: string, rank: number, due_at: number, request_id: number, highestId: number) => {
        const through = { rank, due_at, request_id }
        const gone = ready.filter(
          (row) => isOf(row, target, group) && compare(row, through) <= 0 && (row['request_id'] as number) <= highestId,
        )
        for (const row of gone) taken.add(row)
        return { changes: gone.length }
      },
    },
    nextLeaseEnd: { get: () => least(claimed.map((row) => row['lease_until'] as number)) },
  }
  return {
    sql: Object.setPrototypeOf(known, OTHERS) as Statements,
    changes: (): Changes => ({
      ...(claimed.length > 0 && { task_state: { inserted: claimed, updated: [], deleted: [] } }),
      ...(taken.size > 0 && { ready: { inserted: [], updated: [], deleted: [...taken] } }),
    }),
  }
}

function isOf(row: Row, target: string, group: string): boolean {
  return row['target'] === target && row['group_key'] === group
}

/** As a lane is ordered. */
function compare(a: Row, b: Row): number {
  return by(a, b, 'rank') || by(a, b, 'due_at') || by(a, b, 'request_id')
}

function by(a: Row, b: Row, column: string): number {
  return (a[column] as number) - (b[column] as number)
}

function least<T extends string | number>(values: readonly T[]): T | undefined {
  return values.reduce<T | undefined>(
    (first, value) => (first === undefined || value < first ? value : first),
    undefined,
  )
}
