// Durations as people write them: `500ms`, `90s`, `15m`, `24h`, `7d`, or a number of milliseconds.
import { OnceishError } from '../core/errors.ts'

const MS_PER_UNIT = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const
const DURATION = /^(\d{1,15})(ms|s|m|h|d)$/
/** A hundred years: beyond it instants stop being dates. */
const LONGEST_MS = 36_525 * MS_PER_UNIT.d

type Unit = keyof typeof MS_PER_UNIT

/**
 * @returns whole milliseconds, 0 or more.
 * @throws OnceishError USAGE for anything else, and for text without a unit: nobody knows whether `30` are seconds.
 */
export function parseDuration(value: string | number): number {
  const ms = typeof value === 'number' ? value : msOf(value.trim())
  if (Number.isInteger(ms) && ms >= 0 && ms <= LONGEST_MS) return ms
  const shown = typeof value === 'number' ? String(value) : JSON.stringify(value)
  throw new OnceishError(
    'USAGE',
    `${shown} is no duration: write 500ms, 90s, 15m, 24h or 7d, or a number of milliseconds`,
  )
}

/** The two largest units, for people: `1d 2h`, `1m 30s`, `500ms`. */
export function formatDuration(ms: number): string {
  const sign = ms < 0 ? '-' : ''
  let left = Math.abs(Math.round(ms))
  const parts: string[] = []
  for (const [unit, size] of Object.entries(MS_PER_UNIT)) {
    const count = Math.floor(left / size)
    left -= count * size
    if (count > 0) parts.push(`${count}${unit}`)
    // A gap after the largest unit is a zero: `1d`, not `1d 3s`.
    else if (parts.length > 0) break
    if (parts.length === 2) break
  }
  return parts.length === 0 ? '0ms' : sign + parts.join(' ')
}

function msOf(text: string): number {
  if (text === '0') return 0
  const [, count, unit] = DURATION.exec(text) ?? []
  return unit === undefined ? Number.NaN : Number(count) * MS_PER_UNIT[unit as Unit]
}
