// What was promised (README, "What is promised"), asked from outside when all is over: of the API's own count, and of the file.
import type { Call, Effect, Kind, Oracle } from '../../fixtures/api/ledger.ts'
import type { Row, Tables } from './tables.ts'

export interface Truth {
  /** Request ids by the number of the request: what an enqueue has acknowledged. */
  readonly acknowledged: ReadonlyMap<number, number>
  readonly oracle: Oracle
  readonly tables: Tables
}

/** Whose call surely had no effect, by the API's own word. */
const REFUSALS: readonly string[] = ['429:1', '400']

export function violationsOf({ acknowledged, oracle, tables }: Truth): string[] {
  const rows = new Map(tables.rows.map((row) => [row.requestId, row]))
  const calls = byNumber(oracle.calls)
  const effects = byNumber(oracle.effects)
  const owners = new Map([...acknowledged].map(([n, requestId]) => [requestId, n]))
  return [
    ...[...acknowledged].flatMap(([n, requestId]) => {
      const row = rows.get(requestId)
      if (row === undefined) return [`request ${requestId} (n ${n}) was acknowledged and is lost`]
      return violationsOfOne(`request ${requestId} (n ${n}, ${row.target})`, row, {
        calls: calls.get(n) ?? [],
        effects: effects.get(n) ?? [],
        canceled: new Set(oracle.cancellations.map(({ taskId }) => taskId)),
      })
    }),
    ...tables.rows
      .filter(({ requestId }) => !owners.has(requestId))
      .map(({ requestId }) => `nobody enqueued request ${requestId}`),
    ...[...effects.keys()].filter((n) => !acknowledged.has(n)).map((n) => `an effect of n ${n}, which nobody enqueued`),
    ...[...oracle.errors, ...oracle.unhandled].map((what) => `the API itself failed: ${what}`),
    ...tables.torn,
  ]
}

interface Seen {
  readonly calls: readonly Call[]
  readonly effects: readonly Effect[]
  readonly canceled: ReadonlySet<string>
}

function violationsOfOne(name: string, row: Row, seen: Seen): string[] {
  const { calls, effects } = seen
  const found: string[] = []
  if (effects.length > 1) found.push(`happened ${effects.length} times`)
  if (new Set(calls.map(({ key }) => key)).size > 1) found.push('was called under several keys')
  if (new Set(calls.map(({ bodySha256 }) => bodySha256)).size > 1) found.push('was called with other bytes')
  if ([...calls, ...effects].some(({ kind }) => kind !== row.target)) found.push('was called at another target')
  if (calls.some(({ key }) => key !== row.idempotencyKey)) found.push('was called under a key that is not on record')
  if (row.target === 'messages' && calls.filter(({ fault }) => !REFUSALS.includes(fault)).length > 1)
    found.push('is opaque and was called again blindly')
  found.push(...violationsOfState(row, seen))
  return found.map((what) => `${name} ${what}`)
}

function violationsOfState(row: Row, { calls, effects, canceled }: Seen): string[] {
  switch (row.state) {
    case 'submitted':
      return effects.some(({ taskId }) => taskId === row.taskId)
        ? []
        : [`is submitted as ${row.taskId}, which is not its effect`]
    case 'dead':
      return effects.length === 0 ? [] : ['is dead, and it happened']
    case 'canceled':
      return effects.every(({ taskId }) => canceled.has(taskId)) ? [] : ['is canceled, and it happened']
    case 'held':
      return row.taskId === null ? violationsOfHeld(row, calls) : violationsOfCanceling(row, effects)
    default:
      return [`is still ${row.state}`]
  }
}

/**
 * With a person ends what nobody can ask about, what was to be canceled and may have happened, and a replay that the API
 * refused for good while an earlier call may have had its effect; each with everything that a person needs.
 */
function violationsOfHeld(row: Row, calls: readonly Call[]): string[] {
  const found: string[] = []
  const isRefused = row.reason === 'rejected_in_doubt' && calls.some(({ fault }) => fault === '400')
  if (row.target !== 'messages' && !row.cancelRequested && !isRefused)
    found.push(`is held (${row.reason}), though its API can tell`)
  if (row.frozen === null || row.doubtfulAttempts === '') found.push('is held without the call that is in doubt')
  const isTold = row.events.some(({ to, reason }) => to === 'held' && reason === row.reason)
  const isBegun = row.events.some(({ kind, detail }) => kind === 'unknown' && detail !== null)
  if (!isTold || !isBegun) found.push('is held without its evidence')
  return found
}

/** Its task is known, and was to be canceled where its target does not say how. */
function violationsOfCanceling(row: Row, effects: readonly Effect[]): string[] {
  const isItsTask = effects.some(({ taskId }) => taskId === row.taskId)
  const isTold = row.events.some(({ to, reason }) => to === 'held' && reason === row.reason)
  const isFound = row.events.some(({ kind, detail }) => kind === 'task_found_while_canceling' && detail !== null)
  return row.cancelRequested && isItsTask && isTold && isFound ? [] : ['is held with a task, and not to be canceled']
}

function byNumber<T extends { readonly n: Call['n']; readonly kind: Kind }>(seen: readonly T[]): Map<number, T[]> {
  const found = new Map<number, T[]>()
  for (const one of seen) {
    const n = Number(one.n)
    const others = found.get(n)
    if (others === undefined) found.set(n, [one])
    else others.push(one)
  }
  return found
}
