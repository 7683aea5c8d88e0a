// A folder of the test's own, gone after it. To be called in a test or a beforeEach.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

export function tempDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'onceish-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
