// What the server and the way to it can answer, in our words.
import { type ErrorCode, isOnceishError, OnceishError } from '../../core/errors.ts'
import { CHANGED_STATE } from './save-function.ts'

/** Serialization failure, deadlock, a row that changed, a key that somebody else was first with. */
const AGAIN: ReadonlySet<string> = new Set(['40001', '40P01', CHANGED_STATE, '23505'])

/** Another transaction was in the way: the whole may be done again at once. */
export function isInTheWay(error: unknown): boolean {
  return AGAIN.has(codeOf(error))
}

/** What a name was given to is gone with the server connection that knew it: a pooler stands between. */
export function isNameLost(error: unknown): boolean {
  return codeOf(error) === '26000' || codeOf(error) === '42P05'
}

export function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : ''
}

/** Whether the connection is gone, and with it the answer. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error)
  if (/^(?:08|57P0[1-5]|25P03|25P04)/.test(code)) return true
  if (/^E(?!RR_)[A-Z_]+$/.test(code)) return true
  return error instanceof Error && code === '' && LOST.test(error.message)
}

const LOST = /connection|timeout exceeded|terminated|read timeout|not queryable/i

type Saying = readonly [ours: ErrorCode, text: (location: string, said: string) => string]

const READ_ONLY: Saying = [
  'STORE_UNWRITABLE',
  (location) => `${location} is read-only, as a standby is: point "store" at the primary, or wait until it is one`,
]
const BUSY: Saying = ['STORE_BUSY', (location, said) => `${location} is too busy (${said}): try again`]
const REFUSED: Saying = [
  'STORE_UNWRITABLE',
  (location, said) => `${location} refuses us (${said}): check the role, its password, its rights and the database`,
]
const GONE: Saying = [
  'STORE_NOT_FOUND',
  (location, said) => `${location} has lost tables or functions of onceish (${said}): put them back from a backup`,
]

const FAILED: Saying = ['STORE_IO_FAILED', (location, said) => `the server of ${location} failed (${said})`]

const NUL: Saying = [
  'REQUEST_INVALID',
  (location) => `a text holds a NUL character, which ${location} cannot store: leave it out`,
]

/** By code, or by the class of it. */
const SAYINGS: Readonly<Record<string, Saying>> = {
  '22021': NUL,
  '22P05': NUL,
  '25006': READ_ONLY,
  // A standby is asked for its position in a log that it does not write.
  '55000': READ_ONLY,
  '28': REFUSED,
  '42501': REFUSED,
  '3D000': REFUSED,
  '3F000': GONE,
  '42P01': GONE,
  '42883': GONE,
  '53100': ['STORE_FULL', (location) => `no space left on the server of ${location}: free some; nothing was lost`],
  '53300': [
    'STORE_BUSY',
    (location, said) =>
      `${location} takes no more connections (${said}): raise max_connections, or the CONNECTION LIMIT of the role or the database where that is what it says, or put a pooler before it`,
  ],
  '53': BUSY,
  '55P03': BUSY,
  '57014': [
    'STORE_BUSY',
    (location, said) =>
      `the server of ${location} ended a statement of ours (${said}): it was too slow for statement_timeout, or somebody ended it`,
  ],
  '58': ['STORE_IO_FAILED', (location, said) => `the server of ${location} cannot read or write its files (${said})`],
  // Of an internal error, a limit, an object in use, a plan that is over: whatever it is, the worker's answers are not lost by it.
  '0A': FAILED,
  '40': FAILED,
  '54': FAILED,
  '55': FAILED,
  XX: FAILED,
  XX001: ['STORE_CORRUPT', (location, said) => `${location} is damaged (${said}): put it back from a backup`],
  XX002: ['STORE_CORRUPT', (location, said) => `${location} is damaged (${said}): put it back from a backup`],
}

/** Our error for one of the server's or of the connection; ours, and what nobody foresaw, pass as they are. */
export function toStoreError(error: unknown, location: string): unknown {
  if (isOnceishError(error)) return error
  const code = codeOf(error)
  const said = (error instanceof Error && error.message) || code || String(error)
  const fail = ([ours, text]: Saying) =>
    new OnceishError(ours, text(location, said), { cause: error, details: { postgres: code } })
  const saying = SAYINGS[code] ?? (isInTheWay(error) ? BUSY : isLost(error) ? UNREACHABLE : SAYINGS[code.slice(0, 2)])
  return saying === undefined ? error : fail(saying)
}

const UNREACHABLE: Saying = ['STORE_UNREACHABLE', (location, said) => `${location} cannot be reached (${said})`]

/** As people are shown it. */
export function withoutCredentials(url: string): string {
  try {
    const parsed = new URL(url)
    parsed.username = ''
    parsed.password = ''
    parsed.search = ''
    return parsed.toString()
  } catch {
    return 'postgres://(not a URL)'
  }
}
