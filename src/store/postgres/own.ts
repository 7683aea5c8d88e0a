// Whether the server is the one that made the calls of its store.
import type { StoreOrigin } from '../origin.ts'
import type { StoreRow } from './slice-rows.ts'

/** A promoted standby, and a database put back from a backup, are on another branch of the server's history, or another server. */
export function originOf(store: StoreRow, systemIdentifier: string, timeline: string | undefined): StoreOrigin {
  const isOwn = systemIdentifier === store.system_identifier && timeline === store.timeline
  if (isOwn) return { kind: 'own' }
  return { kind: 'restored', why: 'failed_over', knownUntil: store.high_water_at, calledUntil: null }
}
