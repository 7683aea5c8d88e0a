// The API that README and `onceish init` speak of, as a local fake that counts: it remembers idempotency keys, and its
// effects are told apart by what was sent, so that a second one under another key is seen.
import { HttpResponse, http } from 'msw'
import { onTestFinished } from 'vitest'
import { serveApi } from './serve-api.ts'

/** What README and the config template call; the fake stands in for it. */
const EXAMPLE_ORIGIN = 'https://api.example.com'

interface JobEffect {
  readonly path: string
  readonly body: string
}

export interface JobsApi {
  readonly origin: string
  readonly effects: readonly JobEffect[]
  calls(): number
  /** Answers to calls beyond the first `effects` are kept back, their effects are not, until `release`. */
  holdAfter(effects: number): void
  release(): void
  /** `text` with this API's origin in the place of the example's. */
  standInFor(text: string): string
}

/** To be called in a test: it closes with it. A body that says `reset` is executed and not answered. */
export async function startJobsApi(): Promise<JobsApi> {
  const effects: JobEffect[] = []
  const idOf = new Map<string, string>()
  const waiting: (() => void)[] = []
  let calls = 0
  let holdAfter = Number.POSITIVE_INFINITY

  function perform(path: string, key: string, body: string): string {
    const known = idOf.get(key)
    if (known !== undefined) return known
    effects.push({ path, body })
    const id = `job-${effects.length}`
    idOf.set(key, id)
    return id
  }

  const origin = await serveApi(EXAMPLE_ORIGIN, [
    http.all(`${EXAMPLE_ORIGIN}/v1/*`, async ({ request }) => {
      const { pathname } = new URL(request.url)
      if (request.method === 'GET') return HttpResponse.json({ id: pathname.split('/').at(-1), status: 'done' })
      calls++
      const body = await request.text()
      const key = request.headers.get('idempotency-key') ?? (request.method === 'PUT' ? pathname : `call ${calls}`)
      const id = perform(pathname, key, body)
      if (body.includes('"reset"')) return HttpResponse.error()
      if (effects.length > holdAfter) await new Promise<void>((resolve) => waiting.push(resolve))
      return HttpResponse.json({ id, sid: id }, { status: 201 })
    }),
  ])
  const release = () => {
    holdAfter = Number.POSITIVE_INFINITY
    for (const answer of waiting.splice(0)) answer()
  }
  onTestFinished(release)
  return {
    origin,
    effects,
    calls: () => calls,
    holdAfter: (count) => {
      holdAfter = count
    },
    release,
    standInFor: (text) => text.replaceAll(EXAMPLE_ORIGIN, origin),
  }
}
