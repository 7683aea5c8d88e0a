// The URL of a store on PostgreSQL.
import { OnceishError } from '../../core/errors.ts'

const DEFAULT_SCHEMA = 'onceish'

/** The schema stands in the URL, and is no part of what the server is told. */
export function readUrl(url: string): { url: string; schema: string } {
  const parsed = new URL(url)
  const schema = parsed.searchParams.get('schema') ?? DEFAULT_SCHEMA
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    throw new OnceishError(
      'CONFIG_INVALID',
      `store: schema "${schema}" is no plain name: lower-case letters, digits and _, at most 63`,
    )
  }
  parsed.searchParams.delete('schema')
  return { url: parsed.toString(), schema }
}
