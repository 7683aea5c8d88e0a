// Pauses that end by themselves, for people: until when, told by what, since when, and how calls begin again.
import { rampShare } from '../core/ramp.ts'
import type { OpenBreakerView, StoreStatus, TargetStatus, TimedPause } from '../store/views.ts'
import { instant, plural, relative, table } from './print.ts'

/** Those that still hold calls back. */
export function lasting(waits: readonly TimedPause[], now: number): readonly TimedPause[] {
  return waits.filter(({ rampUntil }) => rampUntil > now)
}

/** A word for a table. */
export function waitRemark(waits: readonly TimedPause[], now: number): string | null {
  const held = lasting(waits, now)
  if (held.some(({ until }) => until > now)) return 'told to wait'
  return held.length > 0 ? 'ramping up' : null
}

/** One clause. */
export function waitWords(wait: TimedPause, now: number): string {
  const { scope, name, toldBy, since } = wait
  const whom = scope === 'bucket' ? ` (bucket ${name})` : ''
  if (wait.cause === 'breaker') return `${goesOn(wait, now)}, its breaker has closed`
  return `${goesOn(wait, now)}${whom}, told ${relative(since, now)} by ${toldBy}`
}

/** One clause. */
export function breakerWords({ since, reason, probe, probeAt, failedProbes }: OpenBreakerView, now: number): string {
  const next = probe !== null && probeAt > now ? `request ${probe} probes` : `next probe ${dueWords(probeAt, now)}`
  const failed = failedProbes === 0 ? '' : `, ${plural(failedProbes, 'probe')} failed`
  return `breaker open (${relative(since, now)}${failed}) by ${reason}; ${next}`
}

function dueWords(at: number, now: number): string {
  return at <= now ? 'as soon as a call is due' : `${instant(at)} (${relative(at, now)})`
}

export function breakerLines({ targets }: StoreStatus, now: number): string[] {
  const open = Object.entries(targets).flatMap(([name, { breaker }]) => (breaker === null ? [] : [{ name, breaker }]))
  return open.flatMap(({ name, breaker }) => ['', `${name}: ${breakerWords(breaker, now)}`])
}

function goesOn({ until, rampUntil, begun }: TimedPause, now: number): string {
  if (until > now) return `waits until ${instant(until)} (${relative(until, now)})`
  const percent = Math.round(rampShare(rampUntil - until, now - until) * 100)
  return `ramping up, at ${percent} % of the limit (${plural(begun, 'call')} so far), over ${relative(rampUntil, now)}`
}

/** Each pause once, however many targets it stops; and how many requests it parked. */
export function waitLines(status: StoreStatus, now: number, next: (words: string) => string): string[] {
  const targets = Object.entries(status.targets)
  const waits = new Map(
    targets
      .flatMap(([, { waits, breaker }]) =>
        lasting(waits, now).filter(({ cause }) => breaker === null || cause !== 'breaker'),
      )
      .map((wait) => [`${wait.scope} ${wait.name} ${wait.cause}`, wait]),
  )
  const rows = [...waits.values()].map((wait) => [
    `${wait.scope} ${wait.name}`,
    wait.cause === 'breaker' ? 'its breaker, which has closed' : wait.toldBy,
    relative(wait.since, now),
    goesOn(wait, now),
  ])
  const lines = rows.length === 0 ? [] : ['', table(['held back', 'by', 'since', 'goes on'], rows)]
  return [...lines, ...targets.flatMap(([name, target]) => parkedLine(name, target, now, next))]
}

function parkedLine(
  name: string,
  { parked, parkedUntil }: TargetStatus,
  now: number,
  next: (words: string) => string,
): string[] {
  if (parked === 0) return []
  const first = `${instant(parkedUntil)} (${relative(parkedUntil, now)})`
  return [
    '',
    `${plural(parked, 'request')} of ${name} parked, the first goes on ${first}: ${next('list --reason parked')}`,
  ]
}
