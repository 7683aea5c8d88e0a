// Some faults need more than every machine permits. Where everything is to be tried, that is a failure and no reason to skip.
import { execFileSync } from 'node:child_process'
import type { TestContext } from 'vitest'

export function skipBecause(context: TestContext, why: string): never {
  if (process.env['ONCEISH_TEST_FULL'] === '1') throw new Error(`ONCEISH_TEST_FULL is set, and ${why}`)
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
