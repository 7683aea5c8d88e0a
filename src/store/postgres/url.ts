// What a postgres:// URL of ours says beyond what the server is told.
import { OnceishError } from '../../core/errors.ts'

const DEFAULT_SCHEMA = 'onceish'

/** The schema stands in the URL, and is no part of what the server is told. */
export function readUrl(url: string): { url: string; schema: string } {
  // What is in it is not said: it may hold a password.
  if (!URL.canParse(url)) throw new OnceishError('CONFIG_INVALID', 'store: the postgres:// URL cannot be read as a URL')
  const parsed = new URL(url)
  const schema = parsed.searchParams.get('schema') ?? DEFAULT_SCHEMA
  // With "onceish_" before it, it is the name of a channel, of which the server takes 63 characters.
  if (!/^(?!pg_)[a-z_][a-z0-9_]{0,54}$/.test(schema)) {
    throw new OnceishError(
      'CONFIG_INVALID',
      `store: schema "${schema}" is no plain name: lower-case letters, digits and _, at most 55, and not pg_ first`,
    )
  }
  parsed.searchParams.delete('schema')
  return { url: parsed.toString(), schema }
}
