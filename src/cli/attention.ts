// What in the store waits for a person, and the command to run next for each.
import { credentialsCure, isOfCredentials, sayReason } from '../core/reasons.ts'
import type { StoreStatus } from '../store/views.ts'
import { quoted } from './context.ts'
import { plural, relative, table } from './print.ts'
import { stuckWords } from './stuck-keys.ts'

export interface Attention {
  readonly held: number
  readonly dead: number
  /** Of the dead: their deadline was over. */
  readonly expired: number
  /** Queued rows, and rows in doubt, of paused targets. */
  readonly paused: number
  readonly pausedTargets: readonly string[]
  /** The same of targets whose breaker is open: they go on by themselves once a probe succeeds. */
  readonly stopped: number
  readonly stoppedTargets: readonly string[]
  /** Rows, queued or in doubt, of targets that the config does not name. */
  readonly unroutable: number
  readonly unroutableTargets: readonly string[]
  /** Of the whole store only; they need no person for work to go on. */
  readonly orphans: number
  /** Requests behind one of their ordering key that is in doubt, held or dead: whatever that needs frees them. */
  readonly stuck: number
}

/** @param served null: the whole store. */
export function attentionOf(
  status: StoreStatus,
  known: readonly string[],
  served: readonly string[] | null,
): Attention {
  const attention = {
    held: 0,
    dead: 0,
    expired: 0,
    paused: 0,
    pausedTargets: [] as string[],
    stopped: 0,
    stoppedTargets: [] as string[],
    unroutable: 0,
    unroutableTargets: [] as string[],
    orphans: served === null ? status.orphans : 0,
    stuck: 0,
  }
  for (const [name, { states, paused, stuck, breaker, expired }] of Object.entries(status.targets)) {
    if (served !== null && !served.includes(name)) continue
    const owed = ['ready', 'scheduled', 'invoking', 'unknown'] as const
    const open = owed.reduce((sum, state) => sum + (states[state] ?? 0), 0)
    attention.held += states.held ?? 0
    attention.dead += states.dead ?? 0
    attention.expired += expired
    attention.stuck += stuck
    if (!known.includes(name)) {
      attention.unroutable += open
      if (open > 0) attention.unroutableTargets.push(name)
    } else if (paused) {
      attention.paused += open
      attention.pausedTargets.push(name)
    } else if (breaker !== null && open > 0) {
      attention.stopped += open
      attention.stoppedTargets.push(name)
    }
  }
  return attention
}

export function needsPerson({ held, dead, paused, stopped, unroutable }: Attention): boolean {
  return held + dead + paused + stopped + unroutable > 0
}

/** Lines for people; none where nothing waits. */
export function attentionLines(attention: Attention, status: StoreStatus, next: (words: string) => string): string[] {
  const { held, dead, expired, pausedTargets, stoppedTargets, unroutable, unroutableTargets, orphans, stuck } =
    attention
  const rows: [string, string][] = []
  if (held > 0) rows.push([`${held} held: say what happened`, next('list --state held')])
  if (dead > expired) rows.push([`${dead - expired} dead: retry, or leave as they are`, next('list --state dead')])
  if (expired > 0) rows.push([`${expired} of the dead: ${sayReason('expired')}`, next('list --reason expired')])
  if (stuck > 0) rows.push([stuckWords(stuck), next('list --stuck')])
  for (const name of pausedTargets) {
    const resume = next(`resume ${quoted(name)}`)
    const isRefused = isOfCredentials(status.targets[name]?.pauseReason ?? null)
    rows.push([pauseLine(name, status), isRefused ? credentialsCure(resume) : resume])
  }
  if (orphans > 0) rows.push([`${plural(orphans, 'orphan')}: tasks beyond those of their requests`, next('orphans')])
  if (unroutable > 0) {
    rows.push([
      `${plural(unroutable, 'row')} of targets that the config does not name (${unroutableTargets.join(', ')})`,
      next(`list --target ${quoted(unroutableTargets[0] ?? '')}`),
    ])
  }
  const stopped = stoppedTargets.map((name) => [stopLine(name, status), next(`resume ${quoted(name)}`)])
  return [
    ...(rows.length === 0 ? [] : ['', table(['needs a person', 'next'], rows)]),
    ...(stopped.length === 0 ? [] : ['', table(['goes on by itself', 'sooner'], stopped)]),
  ]
}

function stopLine(name: string, status: StoreStatus): string {
  const { breaker = null, states } = status.targets[name] ?? {}
  const queued = (states?.ready ?? 0) + (states?.scheduled ?? 0)
  return `${name} fails (${breaker?.reason}): its breaker is open until a probe succeeds (${queued} queued)`
}

function pauseLine(name: string, status: StoreStatus): string {
  const { pausedAt = null, pausedBy, pauseReason, states } = status.targets[name] ?? {}
  const queued = (states?.ready ?? 0) + (states?.scheduled ?? 0)
  const why = pauseReason ? `: ${pauseReason}` : ''
  return `${name} is paused by ${pausedBy ?? 'nobody known'}, ${relative(pausedAt, Date.now())}${why} (${queued} queued)`
}
