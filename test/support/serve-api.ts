// msw handlers on a real socket for one test: it closes with it, and fails it where something was asked that no handler has.
import type { RequestHandler } from 'msw'
import { onTestFinished } from 'vitest'
import { serveMsw } from '../../fixtures/api/serve-msw.ts'

/** @param base the origin that the handlers are written against. @returns the one that is to be called. */
export async function serveApi(base: string, handlers: RequestHandler[], port = 0): Promise<string> {
  const strays: unknown[] = []
  const served = await serveMsw({
    base,
    port,
    handlers,
    onUnhandled: (route) => strays.push(route),
    onError: (error) => strays.push(error),
  })
  onTestFinished(async () => {
    await served.close()
    if (strays.length > 0) throw new Error(`${base} was asked for what it does not have: ${strays.join('; ')}`)
  })
  return served.origin
}
