// What README's blocks need around them to be run (test/readme.test.ts). Blocks run without an entry here where they can:
// yaml loads as a config, a ts block is compiled and run as a program of its own, an sh block's onceish commands are run in
// order and end with 0, all against a local fake of api.example.com, in a folder with README's first config.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Installed } from './installed.ts'
import type { JobsApi } from './jobs-api.ts'

export const STAGE_FILE = 'test/support/readme-stage.ts'

/** sh commands by their text, other blocks by their first line -> why they cannot be run here. */
export const NOT_RUN: Readonly<Record<string, string>> = {
  'npm ci && npm start': '.ci/run does both',
  'npm ci && npm test': 'this is it',
  "import pg from 'pg'": 'test/postgres/enqueue-in.test.ts does it, on a server',
  'npx onceish copy --from ./onceish.db --to postgres://onceish@db.example.com/shop':
    'test/postgres/copy.test.ts does it, on a server',
  '-- Owns the tables: migrate, copy, and everything else.': 'test/postgres/roles.test.ts does it, on a server',
  'scheduled -> ready -> invoking -> submitted': 'a drawing',
}

export interface Stage {
  /** Runs before the command. */
  readonly prepare?: (place: Installed, api: JobsApi) => Promise<void>
  /** The command goes on by itself: it gets SIGTERM once this holds. */
  readonly until?: (api: JobsApi) => boolean
  /** Default 0. */
  readonly exit?: number
}

/** One request is enqueued before these. */
export const JOBS_FILE_LINES = 15

/** sh commands by their text. */
export const STAGES: Readonly<Record<string, Stage>> = {
  'API_KEY=... npx onceish work': { until: (api) => api.effects.length > JOBS_FILE_LINES, exit: 143 },
  'npx onceish show 17': { prepare: holdRequest17 },
  'API_KEY=... npx onceish recover --restored --dry-run': { prepare: putBack },
}

/** The store as a copy has it: without its record of calls. */
async function putBack(place: Installed): Promise<void> {
  rmSync(join(place.folder, 'onceish.db-calls'))
}

/** A message that was sent and never answered, to an API that can be asked nothing. */
async function holdRequest17(place: Installed, api: JobsApi): Promise<void> {
  const url = `${api.origin}/v1/messages`
  const target = `  messages: { submit: { url: "${url}" }, taskId: "{% $response.body.sid %}" }\n`
  place.edit('onceish.config.yaml', '\ntargets:\n', `\ntargets:\n${target}`)
  await place.run('onceish', 'enqueue', '--target', 'messages', '--payload', '{"fault":"reset"}')
  const { code } = await place.start('onceish', 'work', '--drain', '--targets', 'messages').ended
  if (code !== 3) throw new Error(`the message was to be held (3), and work ended with ${code}`)
}
