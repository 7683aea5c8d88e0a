// Keeps a process running: whoever is killed is started again. None of them outlives this one.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'

type Child = ChildProcessByStdio<Writable, Readable, Readable>

export interface Supervised {
  /** SIGKILL; it is started again after `restMs`. @returns false where it was down already. */
  kill(restMs: number): Promise<boolean>
  /** Ends it: its stdin is closed, and `signal` sent. */
  end(signal?: NodeJS.Signals): Promise<void>
  /** What ended of itself, or in another way than it was told to, with its last words. */
  readonly wrong: readonly string[]
}

const running = new Set<Child>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export interface Command {
  readonly name: string
  readonly folder: string
  /** Of each start: what it is given may have changed. */
  readonly args: () => readonly string[]
  readonly onStart?: () => void
  readonly onStdout?: (text: string) => void
  /** Of an end that was asked for. */
  readonly endsWith: readonly (number | NodeJS.Signals)[]
}

export function supervise(command: Command): Supervised {
  const wrong: string[] = []
  let isEnding = false
  let restMs = 0
  let current: { readonly child: Child; readonly gone: Promise<unknown>; isKilled: boolean } | null = null
  const life = (async () => {
    while (!isEnding) {
      command.onStart?.()
      const child = start(command)
      let words = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        words = (words + text).slice(-2000)
      })
      child.stdout.setEncoding('utf8').on('data', (text: string) => command.onStdout?.(text))
      const gone = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
      const own = { child, gone, isKilled: false }
      current = own
      const [code, signal] = await gone
      running.delete(child)
      current = null
      const how = code ?? signal ?? 0
      const isAsked = own.isKilled ? how === 'SIGKILL' : isEnding && command.endsWith.includes(how)
      if (!isAsked) wrong.push(`${command.name} ended with ${how}: ${words}`)
      if (!isEnding) await delay(restMs)
    }
  })()
  return {
    wrong,
    kill: async (rest) => {
      const victim = current
      if (victim === null || victim.isKilled) return false
      restMs = rest
      victim.isKilled = true
      victim.child.kill('SIGKILL')
      await victim.gone
      return true
    },
    end: async (signal) => {
      isEnding = true
      current?.child.stdin.end()
      if (signal !== undefined) current?.child.kill(signal)
      await life
    },
  }
}

function start({ folder, args }: Command): Child {
  const { LOG_LEVEL: _level, DEBUG: _debug, ...env } = process.env
  const child = spawn(process.execPath, [...args()], { cwd: folder, env, stdio: 'pipe' })
  child.stdin.on('error', () => {}) // it may be dead
  running.add(child)
  return child
}
