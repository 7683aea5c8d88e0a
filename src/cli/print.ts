// What stdout gets: tables and sentences for people, JSON for programs. APIs' words never reach a terminal raw.
import Table from 'cli-table3'

export function print(...lines: string[]): void {
  for (const line of lines) process.stdout.write(`${line}\n`)
}

/** One document on one line: alone for a command, or one of a list. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

const BORDERS = ['top', 'bottom', 'left', 'right', 'mid', 'middle'] as const
const CROSSINGS = ['top-mid', 'top-left', 'top-right', 'bottom-mid', 'bottom-left', 'bottom-right'] as const
const MORE_CROSSINGS = ['left-mid', 'mid-mid', 'right-mid'] as const
const NO_BORDERS = {
  ...Object.fromEntries([...BORDERS, ...CROSSINGS, ...MORE_CROSSINGS].map((part) => [part, ''])),
  middle: '  ',
}

export type Cell = string | number | null

/** Numbers stand right. Null is shown as `-`. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const aligned = head.map((_, column) => (rows.some((row) => typeof row[column] === 'number') ? 'right' : 'left'))
  const drawn = new Table({
    head: [...head],
    chars: NO_BORDERS,
    colAligns: aligned as ('left' | 'right')[],
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
  for (const row of rows) drawn.push(row.map(shown))
  return trimLines(drawn.toString())
}

/** Names and values below one another. */
export function fields(rows: readonly (readonly [name: string, value: Cell])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length))
  return trimLines(rows.map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`).join('\n'))
}

function shown(cell: Cell): string {
  return cell === null ? '-' : escapeControls(String(cell))
}

function trimLines(text: string): string {
  return text.replaceAll(/[ \t]+$/gm, '')
}

/** A hostile answer or payload must not move the cursor, clear the screen or turn the text around. */
export function escapeControls(text: string): string {
  return text.replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (char) =>
    JSON.stringify(char)
      .slice(1, -1)
      .replace(char, `\\u${hex(char)}`),
  )
}

function hex(char: string): string {
  return (char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')
}

/** At most `chars` of a text, for a table. */
export function shorten(text: string | null, chars: number): string | null {
  return text === null || text.length <= chars ? text : `${text.slice(0, chars - 1)}…`
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const

/** Exact, as API documents say it: `90d`, `24h`, `60s`, `1500ms`; one day or minute is said in the smaller unit. */
export function duration(ms: number): string {
  const least = { d: 2, h: 1, m: 2, s: 1 }
  const [unit, size] = UNITS.find(([unit, size]) => ms >= least[unit] * size && ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** Rough: `3m ago`, `in 2h`, `now`. */
export function relative(at: number | null, now: number): string | null {
  if (at === null) return null
  const distance = Math.abs(now - at)
  if (distance < 1000) return 'now'
  const [unit, size] = UNITS.find(([, size]) => distance >= size) ?? (['s', 1000] as const)
  const text = `${Math.floor(distance / size)}${unit}`
  return at > now ? `in ${text}` : `${text} ago`
}

export function instant(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
