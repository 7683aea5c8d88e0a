// A store that nothing may work on: one that was copied to another place, or that is being copied into. It says so by its schema
// version, which every transaction of every release reads first, so that none of them needs to know the word.

/** Above any schema version there will be; added to the one that the store has. */
export const SET_ASIDE = 1_000_000

export function isSetAside(version: number): boolean {
  return version > SET_ASIDE
}
