// Some faults need more than every machine permits: these tests say so, and are skipped. Where everything is to be tried, a
// command that could have been installed is no reason.
import { execFileSync } from 'node:child_process'
import type { TestContext } from 'vitest'

export function skipBecause(context: TestContext, why: string): never {
  const isMissing = why.includes('ENOENT')
  if (isMissing && process.env['ONCEISH_TEST_FULL'] === '1') throw new Error(`ONCEISH_TEST_FULL is set, and ${why}`)
  process.stderr.write(`skipped: "${context.task.name}": ${why}\n`)
  return context.skip(why)
}

/** @returns null, or why the command did not succeed. */
export function tryCommand(command: string, ...args: string[]): string | null {
  try {
    execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    return null
  } catch (error) {
    return `"${command} ${args.join(' ')}" is not possible here: ${(error as Error).message.trim()}`
  }
}
