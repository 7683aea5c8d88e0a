// A disk of its own that is really full when it is told to be: a tmpfs, gone with the test.
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished, type TestContext } from 'vitest'
import { tempDir } from '../../support/temp-dir.ts'
import { skipBecause, tryCommand } from './skip.ts'

export interface SmallDisk {
  readonly folder: string
  /** Not one byte more fits. */
  fill(): void
  free(): void
}

export function mountSmallDisk(context: TestContext, megabytes: number): SmallDisk {
  const folder = join(tempDir(), 'disk')
  mkdirSync(folder)
  const why = tryCommand('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder)
  if (why !== null) skipBecause(context, why)
  onTestFinished(() => {
    const stuck = tryCommand('umount', '-l', folder)
    if (stuck !== null) throw new Error(stuck)
  })
  const ballast = join(folder, 'ballast')
  return { folder, fill: () => fillUp(ballast), free: () => rmSync(ballast, { force: true }) }
}

function fillUp(path: string): void {
  const file = openSync(path, 'a')
  const chunk = Buffer.alloc(4096)
  try {
    for (;;) writeSync(file, chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(file)
  }
}
