// What a postgres:// URL of ours says beyond what the server is told.
import { OnceishError } from '../../core/errors.ts'
import { didYouMean } from '../../core/suggest.ts'

const DEFAULT_SCHEMA = 'onceish'

/** Ours, then node-postgres's, then libpq's, which others who share the URL may go by. */
const PARAMETERS: ReadonlySet<string> = new Set(
  `schema
   user password host port database db encoding client_encoding application_name fallback_application_name options replication
   ssl sslmode sslcert sslkey sslrootcert sslnegotiation uselibpqcompat binary
   statement_timeout lock_timeout idle_in_transaction_session_timeout query_timeout connect_timeout
   dbname hostaddr passfile require_auth channel_binding keepalives keepalives_idle keepalives_interval keepalives_count
   tcp_user_timeout gssencmode sslcompression sslcertmode sslpassword sslcrl sslcrldir sslsni ssl_min_protocol_version
   ssl_max_protocol_version min_protocol_version max_protocol_version requirepeer krbsrvname gsslib gssdelegation service
   target_session_attrs load_balance_hosts`.split(/\s+/),
)

/**
 * The schema stands in the URL, and is no part of what the server is told.
 * @param session who connects, for pg_stat_activity, where the URL does not say. @throws OnceishError CONFIG_INVALID
 */
export function readUrl(url: string, session: string | null = null): { url: string; schema: string } {
  refuseManyHosts(url)
  // What is in it is not said: it may hold a password.
  if (!URL.canParse(url)) throw invalid('the postgres:// URL cannot be read as a URL')
  const parsed = new URL(url)
  for (const name of parsed.searchParams.keys()) {
    if (PARAMETERS.has(name)) continue
    throw invalid(`the postgres:// URL has a parameter that nobody knows, ${name}${didYouMean(name, PARAMETERS)}`)
  }
  const schema = parsed.searchParams.get('schema') ?? DEFAULT_SCHEMA
  // With "onceish_" before it, it is the name of a channel, of which the server takes 63 characters.
  if (!/^(?!pg_)[a-z_][a-z0-9_]{0,54}$/.test(schema)) {
    throw invalid(
      `schema "${schema}" is no plain name: lower-case letters, digits and _, at most 55, and not pg_ first`,
    )
  }
  parsed.searchParams.delete('schema')
  if (session !== null && !parsed.searchParams.has('application_name'))
    parsed.searchParams.set('application_name', sessionName(session))
  return { url: parsed.toString(), schema }
}

/** What the server does not show as it is, and what it would cut, stays away: the pid is last. */
function sessionName(who: string): string {
  const pid = ` ${process.pid}`
  return `onceish ${who.replaceAll(/[^\x20-\x7e]/g, '?')}`.slice(0, MAX_NAME_BYTES - pid.length) + pid
}

const MAX_NAME_BYTES = 63

function refuseManyHosts(url: string): void {
  const [, hosts = ''] = /^[^:]+:\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(url) ?? []
  if (!hosts.includes(',')) return
  throw invalid(
    'the postgres:// URL names several servers, and a store is at one address: a DNS name, a virtual IP or a pooler that leads to the primary',
  )
}

function invalid(message: string): OnceishError {
  return new OnceishError('CONFIG_INVALID', `store: ${message}`)
}

/** @param schema as statements have it: a plain name in quotes. */
export function unquoted(schema: string): string {
  return schema.slice(1, -1)
}
