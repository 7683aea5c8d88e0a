// Starts a script of this folder as a process of its own, and asks it: a message for a message, in their order.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const RUN_SCRIPT = fileURLToPath(new URL('../../support/run-script.mjs', import.meta.url))

export interface Child {
  /** What it said when it was ready. */
  readonly greeting: unknown
  /** One question at a time. */
  ask(question: string): Promise<unknown>
  stop(): Promise<void>
}

/** @param script beside this file; it says something once it is ready, and ends when it is disconnected. */
export async function startProcess(script: string, ...args: string[]): Promise<Child> {
  const file = fileURLToPath(new URL(script, import.meta.url))
  const child = fork(RUN_SCRIPT, [file, ...args])
  const failed = once(child, 'exit').then(() => {
    throw new Error(`${script} ended before it answered`)
  })
  failed.catch(() => {}) // whoever asks is told
  const answer = async () => {
    const [said] = (await Promise.race([once(child, 'message'), failed])) as [unknown]
    return said
  }
  return {
    greeting: await answer(),
    ask: (question) => {
      child.send(question)
      return answer()
    },
    stop: async () => {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}
