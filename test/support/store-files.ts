// What stands beside a store's file.
import { copyFileSync, readdirSync, rmSync } from 'node:fs'

/** A copy takes the place of the store at `path`, as README says how; nobody has it open. */
export function putBack(copy: string, path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
  copyFileSync(copy, path)
}

/** Names of the files in which workers left answers that a store did not take. */
export function spillsIn(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.includes('.spill-'))
}
