// How the address of a store tells its engine.

const POSTGRES_URL = /^postgres(?:ql)?:\/\//i

/** One that many machines share: a slip of the pen in its address is another store. */
export function isShared(location: string): boolean {
  return POSTGRES_URL.test(location)
}
