// How a person's word ended: as an error where it was refused, as a line or a JSON object where it holds.
import { OnceishError } from '../core/errors.ts'
import type { OperatorResult } from '../store/views.ts'
import type { Context } from './context.ts'
import { EXIT, errorCode, errorMessage, printError } from './exit-codes.ts'
import { print, printJson } from './print.ts'

/** @throws OnceishError REQUEST_NOT_FOUND, STATE_REFUSED, VERSION_CHANGED */
export function assertApplied(
  requestId: number,
  result: OperatorResult,
): asserts result is OperatorResult & { kind: 'applied' | 'unchanged' } {
  if (result.kind === 'not_found') throw notFound(requestId)
  if (result.kind === 'refused') {
    throw new OnceishError(
      'STATE_REFUSED',
      `request ${requestId} is ${result.view.state}: ${result.why}; nothing was changed`,
    )
  }
  if (result.kind === 'version_changed') {
    const { version, state } = result.view
    throw new OnceishError(
      'VERSION_CHANGED',
      `request ${requestId} has changed since: it is ${state}, version ${version} now; look again with "onceish show ${requestId}"`,
    )
  }
}

export function notFound(requestId: number): OnceishError {
  return new OnceishError(
    'REQUEST_NOT_FOUND',
    `no request ${requestId} in this store: "onceish list" shows which there are`,
  )
}

export function printApplied(
  result: OperatorResult & { kind: 'applied' | 'unchanged' },
  isJson: boolean,
  note = '',
): void {
  const { requestId, target, state, taskId, version } = result.view
  if (isJson) {
    printJson({ requestId, result: result.kind, target, state, taskId, version })
    return
  }
  const more = result.kind === 'unchanged' ? ' already: nothing was changed' : ''
  print(`request ${requestId} is ${state}${more || note}`)
}

/** Each id gets its word, whatever became of the others. */
export async function tellEach(
  { isJson }: Context,
  ids: readonly number[],
  tell: (requestId: number) => Promise<OperatorResult>,
  noteOf: (state: string) => string = () => '',
): Promise<void> {
  for (const requestId of new Set(ids)) {
    const result = await tell(requestId)
    tellOne({ requestId, result: result.kind }, ids.length, isJson, () => {
      assertApplied(requestId, result)
      printApplied(result, isJson, noteOf(result.view.state))
    })
  }
}

/** One of `count`: where it was refused that is said, and the others go on. */
export function tellOne(about: object, count: number, isJson: boolean, say: () => void): void {
  try {
    say()
  } catch (error) {
    process.exitCode = EXIT.failed
    printError(error)
    if (isJson && count > 1) printJson({ ...about, error: { code: errorCode(error), message: errorMessage(error) } })
  }
}
