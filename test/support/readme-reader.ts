// Does what a reader of README does: types its commands, runs its programs (test/readme.test.ts).
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type Installed, install, type Running } from './installed.ts'
import type { JobsApi } from './jobs-api.ts'
import type { Command } from './markdown.ts'
import { JOBS_FILE_LINES, STAGE_FILE, STAGES } from './readme-stage.ts'
import { waitFor } from './wait-for.ts'

const PATIENCE_MS = 40_000

/** A reader's folder, with a config that calls the local API and a file of requests. To be called in a test. */
export function readersPlace(config: string, api: JobsApi): Installed {
  // Whoever has a connection of their own has its types too.
  const place = install(['@types/better-sqlite3'])
  place.write('onceish.config.yaml', api.standInFor(`${config}\n`))
  const lines = Array.from({ length: JOBS_FILE_LINES }, (_, n) => JSON.stringify({ payload: { n } }))
  place.write('jobs.ndjson', lines.join('\n'))
  return place
}

export function isOnceish(text: string): boolean {
  return /\bnpx onceish\b/.test(text)
}

/** In a real shell, but without npx, whose start takes a second: test/package/newcomer.test.ts has that. */
export async function typeCommand({ document, line, text }: Command, place: Installed, api: JobsApi): Promise<void> {
  const at = `${document}:${line}: "${text}"`
  const { prepare, until, exit = 0 } = STAGES[text] ?? {}
  await prepare?.(place, api)
  // The shell waits for the command, which gets the signal too.
  const running = place.start('sh', '-c', `trap : TERM\n${text.replaceAll(/\bnpx onceish\b/g, 'onceish')}`)
  if (until === undefined)
    await endOf(running, `${at}; if it is to go on, give it an "until" in STAGES of ${STAGE_FILE}`)
  else await stopOnce(running, () => until(api), `what ${at} waits "until"`)
  const { code, stdout, stderr } = await running.ended
  const hint = `what it needs before it, or another exit code, goes into STAGES of ${STAGE_FILE}`
  expect(code, `${at} said: ${stderr}${stdout}\n${hint}`).toBe(exit)
}

interface Program {
  readonly at: string
  readonly text: string
  /** Of its file, without an extension. */
  readonly name: string
}

/** One that listens for SIGTERM is let work first, and then gets it. Each starts without a database. */
export async function runProgram({ at, text, name }: Program, place: Installed, api: JobsApi): Promise<void> {
  const before = api.effects.length
  const running = place.start('env', 'API_KEY=secret', process.execPath, `${name}.js`)
  if (!text.includes("'SIGTERM'")) await endOf(running, `${at}; a program that goes on is to stop at 'SIGTERM'`)
  else await stopOnce(running, () => api.effects.length > before, `a call by ${at}`)
  const { code, stdout, stderr } = await running.ended
  expect(code, `${at} said: ${stderr}${stdout}`).toBe(0)
  for (const file of readdirSync(place.folder)) if (/\.db(-\w+)?$/.test(file)) rmSync(join(place.folder, file))
}

async function stopOnce(running: Running, condition: () => boolean, what: string): Promise<void> {
  await Promise.race([waitFor(condition, { what, timeoutMs: PATIENCE_MS }), running.ended])
  running.kill('SIGTERM')
}

async function endOf(running: Running, what: string): Promise<void> {
  let hasEnded = false
  void running.ended.then(() => {
    hasEnded = true
  })
  await waitFor(() => hasEnded, { what: `the end of ${what}`, timeoutMs: PATIENCE_MS })
}
