// Whether a store is the one that made its calls. A file that was put back from a copy has forgotten the calls since; what it
// holds as ready may have been called. So each store keeps, outside of itself, until when it has called.
import { OnceishError } from '../core/errors.ts'

/** Kept outside the database; written after each commit that claims, and before that commit's calls. */
export interface CallRecord {
  readonly incarnation: string
  /** The store's high-water time at its last commit that claimed. */
  readonly highWaterAt: number
  /** Where the database was then: its real path, and its inode as text. */
  readonly place: { readonly path: string; readonly inode: string }
}

/** What the database says of itself. */
export interface OwnFacts {
  readonly incarnation: string
  readonly highWaterAt: number
  /** It has claimed at least once since it keeps a record. */
  readonly hasCalled: boolean
}

/** Instants are UTC epoch ms. */
export type StoreOrigin =
  | { readonly kind: 'own' }
  | {
      readonly kind: 'restored'
      /** The database is behind its record; the record is another store's; there is none. */
      readonly why: 'behind' | 'other_store' | 'no_record' | 'failed_over'
      /** Calls until then are in the database. */
      readonly knownUntil: number
      /** Calls were made until then; null: nobody knows. */
      readonly calledUntil: number | null
    }
  /** Both files are at another place than they were: moved, or copied and worked twice. */
  | { readonly kind: 'moved'; readonly from: string }

/** What a person said of a store that did not make its calls itself. */
export type OwnWord = 'store_restored' | 'store_moved'

/** A database ahead of its record is no copy: a process died between the commit and the record. */
export function originOf(own: OwnFacts, record: CallRecord | null, place: CallRecord['place']): StoreOrigin {
  const restored = (why: 'behind' | 'other_store' | 'no_record', calledUntil: number | null): StoreOrigin => {
    return { kind: 'restored', why, knownUntil: own.highWaterAt, calledUntil }
  }
  if (record === null) return own.hasCalled ? restored('no_record', null) : { kind: 'own' }
  if (record.incarnation !== own.incarnation) return restored('other_store', null)
  if (own.highWaterAt < record.highWaterAt) return restored('behind', record.highWaterAt)
  const isElsewhere = record.place.path !== place.path && record.place.inode !== place.inode
  return isElsewhere ? { kind: 'moved', from: record.place.path } : { kind: 'own' }
}

/** @throws OnceishError STORE_RESTORED, STORE_MOVED: nothing may be called before a person has spoken. */
export function refuseForeign(origin: StoreOrigin, location: string): void {
  if (origin.kind === 'own') return
  if (origin.kind === 'moved') {
    throw new OnceishError(
      'STORE_MOVED',
      `${location} was at ${origin.from} when it last called: where that one is gone for good, say "onceish recover --moved"; where it may have been worked since, "onceish recover --restored"`,
      { details: { ...origin } },
    )
  }
  throw new OnceishError(
    'STORE_RESTORED',
    `${location} ${SIGNS[origin.why]}: it was put back from a copy or copied, and has forgotten the calls made since ${new Date(origin.knownUntil).toISOString()}. Nothing is called: stop whatever else works it, then say "onceish recover --restored"`,
    { details: { ...origin } },
  )
}

const SIGNS = {
  behind: 'is behind its own record of calls (the file beside it that ends in -calls)',
  other_store: 'stands beside the record of calls of another store (the file that ends in -calls)',
  failed_over:
    'has other calls in its log than those that were made: a standby was promoted, or the database was put back from a backup',
  no_record: 'has called before, and its record of calls (a file beside it that ends in -calls) is not there',
} as const
