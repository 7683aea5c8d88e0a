// An API whose tasks take their time and have a state that can be asked for, and the target that asks.
import { HttpResponse, http } from 'msw'
import type { RawConfig } from '../support/api.ts'
import { serveApi } from '../support/serve-api.ts'
import { DEADLINE_MS, keyed } from './stage.ts'

export interface TaskApi {
  readonly url: string
  /** How often a task was made. */
  submits(): number
  /** How often the state of one was asked for. */
  polls(): number
  /** What it says of a task from now on, an answer a poll, the last one for ever. */
  say(...answers: readonly object[]): void
}

/** To be called in a test: it closes with it. */
export async function startTaskApi(): Promise<TaskApi> {
  const base = 'https://tasks.sample.test'
  let submits = 0
  let polls = 0
  let answers: readonly object[] = [{}]
  const origin = await serveApi(base, [
    http.post(`${base}/tasks`, () => HttpResponse.json({ id: `task-${++submits}` }, { status: 201 })),
    http.get(`${base}/tasks/:id`, () => {
      polls++
      const [answer = {}, ...later] = answers
      if (later.length > 0) answers = later
      return HttpResponse.json({ ...answer })
    }),
  ])
  return {
    url: `${origin}/tasks`,
    submits: () => submits,
    polls: () => polls,
    say: (...next) => {
      answers = next
    },
  }
}

export function tracked(url: string): RawConfig {
  return {
    ...keyed(url),
    status: {
      url: `${url}/{% $taskId %}`,
      state: '{% $response.body.status %}',
      pending: ['queued'],
      succeeded: ['succeeded'],
      failed: ['failed'],
      everyMs: '5s',
    },
    deadlineMs: DEADLINE_MS,
  }
}
