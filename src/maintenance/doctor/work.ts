// Checks of what is owed: what nobody serves, what waits for a person, and doubt that is running out of time.
import { type Config, isTargetOf, targetNames } from '../../config/config.ts'
import { formatDuration } from '../../config/duration.ts'
import { definitionVersion, policyOf } from '../../config/policy.ts'
import type { TargetDefinition } from '../../config/target-definition.ts'
import { retryHorizonMs } from '../../core/backoff.ts'
import { stricterPolicy, type TargetPolicy } from '../../core/policy.ts'
import { credentialsCure, isOfCredentials } from '../../core/reasons.ts'
import type { RequestState } from '../../core/task-state.ts'
import { windowClosesAt } from '../../core/windows.ts'
import type { WorkFacts } from '../../store/inspection.ts'
import { type Check, counted, ok, type WorkView, warn } from './check.ts'

const OWED: readonly RequestState[] = ['ready', 'scheduled', 'invoking', 'unknown', 'held']

function owedBy({ status }: WorkFacts, target: string): number {
  return OWED.reduce((sum, state) => sum + (status.targets[target]?.states[state] ?? 0), 0)
}

export function checkRoutes({ work, config, next }: WorkView): Check {
  const strays = Object.keys(work.status.targets).filter((name) => !isTargetOf(config, name) && owedBy(work, name) > 0)
  if (strays.length === 0) return ok('unroutable', 'every row belongs to a target of the config')
  const rows = strays.reduce((sum, name) => sum + owedBy(work, name), 0)
  return warn(
    'unroutable',
    `${counted(rows, 'row')} of targets that the config does not name: ${strays.join(', ')}`,
    `put them back into the config, or end their rows: ${next(`list --target ${strays[0]}`)}`,
  )
}

export function checkPauses({ work, config, next }: WorkView): Check {
  const paused = targetNames(config).filter((name) => work.status.targets[name]?.paused)
  if (paused.length === 0) return ok('paused', 'no target is paused')
  const found = paused.map((name) => {
    const { pausedBy, pauseReason } = work.status.targets[name] ?? {}
    return `${name} (by ${pausedBy ?? 'nobody known'}${pauseReason ? `: ${pauseReason}` : ''}, ${owedBy(work, name)} owed)`
  })
  const cures = paused.map((name) => {
    const resume = next(`resume ${name}`)
    return isOfCredentials(work.status.targets[name]?.pauseReason ?? null) ? credentialsCure(resume) : resume
  })
  return warn('paused', found.join('; '), cures.join('; '))
}

export function checkHeld({ work, next }: WorkView): Check {
  const held = work.status.states.held ?? 0
  if (held === 0) return ok('held', 'nothing waits for your word')
  return warn('held', `${counted(held, 'request')} held`, `say what happened: ${next('list --state held')}`)
}

/** A lease that ended, or a check that came due, longer ago than any turn takes. */
const OVERDUE_MS = 60_000

export function checkLeases({ work, config, now, next }: WorkView): Check {
  const overdue = work.doubt.filter(({ row }) => {
    const dueAt = row.state === 'invoking' ? row.leaseUntil : row.state === 'unknown' ? row.nextCheckAt : null
    const isServed = isTargetOf(config, row.target) && !work.status.targets[row.target]?.paused
    return isServed && dueAt !== null && now - dueAt > OVERDUE_MS
  })
  const [first] = overdue
  if (first === undefined) return ok('leases', 'nothing in doubt waits for a worker')
  const found = `${counted(overdue.length, 'request')} in doubt that nobody looks into (the first is ${first.row.requestId}): no worker seems to run`
  return warn('leases', found, `${next('work')}, or ${next('recover')}`)
}

/** Longer than any idle worker, restart or told wait of seconds takes. */
const UNWORKED_MS = 600_000

/** What nobody calls leaves no trace but the wait of what is due. */
export function checkUnworked({ work, config, now, next }: WorkView): Check {
  const name = 'unworked'
  const waiting = targetNames(config).flatMap((target) => {
    const status = work.status.targets[target]
    if (status === undefined || status.paused || status.breaker !== null || status.waits.length > 0) return []
    const since = Math.min(...status.oldestReady.map((wait) => wait.since))
    const isWorked = (status.states.invoking ?? 0) > 0 || now - (work.lastChangeAt[target] ?? 0) < UNWORKED_MS
    return isWorked || now - since < UNWORKED_MS
      ? []
      : [`${target} (for ${formatDuration(roundedMinutes(now - since))})`]
  })
  if (waiting.length === 0) return ok(name, 'nothing that is due waits for a worker')
  return warn(name, `due and called by nobody: ${waiting.join(', ')}: no worker of these seems to run`, next('work'))
}

function roundedMinutes(ms: number): number {
  return Math.floor(ms / 60_000) * 60_000
}

const SOON_MS = 3_600_000

export function checkClosingWindows(view: WorkView): Check {
  const { work, now, next } = view
  const closing = work.doubt
    .map(({ row, description }) => ({ row, at: closesAt(view, row.target, row, description) }))
    .filter(({ at }) => at !== null && at > now && at - now <= SOON_MS)
    .sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
  const [first] = closing
  if (first === undefined) return ok('closing_windows', `no key's window closes within ${formatDuration(SOON_MS)}`)
  return warn(
    'closing_windows',
    `${counted(closing.length, 'request')} in doubt can soon not be repeated any more: ${first.row.requestId} in ${formatDuration((first.at ?? now) - now)}`,
    first.row.state === 'held'
      ? next(`resolve ${first.row.requestId}`)
      : `keep a worker running, or ${next('recover')}`,
  )
}

function closesAt(
  view: WorkView,
  target: string,
  row: Parameters<typeof windowClosesAt>[0],
  description: string | null,
): number | null {
  const policy = policyInDoubt(view, target, description)
  return policy === null || policy.key === null || row.idempotencyKey === null ? null : windowClosesAt(row, policy)
}

/** Doubt is judged by the stricter of the description that made it and the present one. */
function policyInDoubt({ config }: WorkView, target: string, description: string | null): TargetPolicy | null {
  const present = presentPolicy(config, target)
  const frozen = description === null ? null : readPolicy(description)
  if (present === null) return frozen
  return frozen === null ? present : stricterPolicy(frozen, present)
}

function presentPolicy(config: Config, target: string): TargetPolicy | null {
  const described = config.targets[target]
  return described === undefined ? (config.codeTargets[target]?.policy ?? null) : policyOf(described)
}

/** What is stored of a target in code. */
interface StoredCode {
  readonly kind: 'code'
  readonly version: string
  readonly policy: TargetPolicy
}

function codeOf(description: string | null): StoredCode | null {
  try {
    const stored = JSON.parse(description ?? 'null') as Partial<StoredCode> | null
    return stored?.kind === 'code' ? (stored as StoredCode) : null
  } catch {
    return null
  }
}

/** Doubt that was made by code which the config no longer has: whatever worker comes first holds it. */
export function checkCodeVersions({ work, config, next }: WorkView): Check {
  const stray = work.doubt.flatMap(({ row, description }) => {
    const present = config.codeTargets[row.target]
    const stored = codeOf(description)
    if (present === undefined || stored === null || stored.version === present.version) return []
    return [
      `request ${row.requestId} of ${row.target} was called by version ${stored.version}, the config has ${present.version}`,
    ]
  })
  if (stray.length === 0) return ok('code_versions', 'nothing in doubt was called by code that is not loaded')
  return warn(
    'code_versions',
    stray.slice(0, 5).join('; '),
    `run "onceish recover" with that version before a worker of this one starts; what is held already: ${next('list --state held')}`,
  )
}

/** Null where this release cannot read it. */
function readPolicy(description: string): TargetPolicy | null {
  try {
    const stored = JSON.parse(description) as TargetDefinition | StoredCode
    return 'kind' in stored ? stored.policy : policyOf(stored)
  } catch {
    return null
  }
}

export function checkWindows(view: WorkView): Check {
  const { config } = view
  const present = targetNames(config).flatMap((name) => {
    const policy = presentPolicy(config, name)
    const why = policy === null ? null : windowFault(policy, config.worker.leaseMs, { judgesRetries: false })
    return why === null ? [] : [`${name}: ${why}`]
  })
  const frozen = new Set(view.work.doubt.flatMap((doubt) => earlierFault(view, doubt)))
  const faults = [...present, ...frozen]
  if (faults.length === 0)
    return ok('windows', 'every key is remembered for longer than a crash and all retries can take')
  return warn(
    'windows',
    faults.join('; '),
    'find out how long the API remembers a key, and set idempotency.rememberedFor; settle the doubt of earlier descriptions soon',
  )
}

/** The loader judges the present config; rows in doubt may be of an earlier one. */
function earlierFault(view: WorkView, { row, description }: WorkFacts['doubt'][number]): string[] {
  const present = view.config.targets[row.target]
  if (description === null || (present !== undefined && definitionVersion(present) === row.targetVersion)) return []
  const policy = policyInDoubt(view, row.target, description)
  const why = policy === null ? null : windowFault(policy, view.config.worker.leaseMs, { judgesRetries: true })
  return why === null ? [] : [`${row.target} as described earlier (${row.targetVersion}), still in doubt: ${why}`]
}

function windowFault(
  { key, lookup, timeoutMs, retry }: TargetPolicy,
  leaseMs: number,
  { judgesRetries }: { readonly judgesRetries: boolean },
): string | null {
  if (key === null || key.rememberedForMs === 'forever') return null
  // A reference that is only looked up by is repeated by nobody.
  if (key.rememberedForMs === null)
    return lookup === null ? 'nobody says how long a key is remembered, so doubt is held' : null
  const windowMs = key.rememberedForMs - key.marginMs
  const crashMs = leaseMs + timeoutMs
  if (windowMs < crashMs) {
    return `a key may be repeated for ${formatDuration(Math.max(0, windowMs))}, and after a crash its lease and a call take ${formatDuration(crashMs)}`
  }
  const horizonMs = retryHorizonMs(retry, timeoutMs)
  if (!judgesRetries || horizonMs <= windowMs) return null
  return `retries can last ${formatDuration(horizonMs)}, longer than a key may be repeated (${formatDuration(windowMs)})`
}
