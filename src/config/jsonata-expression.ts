// One JSONata expression: compiled and checked once, evaluated synchronously, within bounds, to a plain JSON value.
// It sees the variables of its scope and nothing else; of the environment only the names it spells out.
import jsonata from 'jsonata'
import { OnceishError } from '../core/errors.ts'
import { namesOf, type SyntaxNode } from './expression-names.ts'
import { plainJson } from './plain-json.ts'
import { compilePlainPath, UNSURE } from './plain-path.ts'

export interface ExpressionScope {
  readonly payload?: unknown
  readonly key?: string | null
  readonly request?: unknown
  readonly taskId?: string | null
  readonly response?: {
    readonly status: number
    readonly headers: Readonly<Record<string, string>>
    readonly body: unknown
  }
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Epoch ms that `$now()` and `$millis()` answer with. */
  readonly now?: number
}

export interface CompiledExpression {
  /** As it stands between `{%` and `%}`. */
  readonly text: string
  readonly variables: ReadonlySet<string>
  readonly envNames: ReadonlySet<string>
  /** A fresh plain JSON value, or undefined for nothing. Throws OnceishError RENDER_FAILED. */
  evaluate(scope: ExpressionScope): unknown
}

// Enough to map ten thousand items, and over within a second: nothing else runs meanwhile. JSONata's steps cost time in
// proportion to their depth.
const MAX_STEPS = 200_000
const MAX_DEPTH = 500

const formatInstant = jsonata('$fromMillis($at, $picture, $zone)')

/** Throws OnceishError CONFIG_INVALID with JSONata's message and position. */
export function compileExpression(text: string): CompiledExpression {
  const compiled = parse(text)
  const tree = compiled.ast() as unknown as SyntaxNode
  const { variables, envNames, faults } = namesOf(tree)
  if (faults.length > 0) throw new OnceishError('CONFIG_INVALID', `{%${text}%}: ${faults.join('; ')}`)
  const plainPath = compilePlainPath(tree)
  return {
    text,
    variables,
    envNames,
    evaluate: (scope) => {
      const quick = plainPath === null ? UNSURE : plainPath(scope)
      const value = quick === UNSURE ? run(compiled, text, bindingsOf(scope, envNames), envNames.size > 0) : quick
      return plainJson(value, text)
    },
  }
}

function parse(text: string): jsonata.Expression {
  try {
    return jsonata(text)
  } catch (error) {
    throw new OnceishError('CONFIG_INVALID', `{%${text}%}: ${syntaxMessage(error)}`, { cause: error })
  }
}

function syntaxMessage(error: unknown): string {
  const { message, position } = error as { message?: string; position?: number }
  const reason = message ?? 'this is no JSONata expression'
  return position === undefined ? reason : `${reason} (position ${position})`
}

function bindingsOf(scope: ExpressionScope, envNames: ReadonlySet<string>): Record<string, unknown> {
  const { payload, key, request, taskId, response, now } = scope
  const env = Object.fromEntries([...envNames].map((name) => [name, scope.env?.[name]]))
  const bindings = { payload, key, request, taskId, response, env }
  return now === undefined ? bindings : { ...bindings, ...clockBindings(now) }
}

function clockBindings(now: number): Record<string, unknown> {
  return {
    millis: () => now,
    now: (picture?: string, zone?: string) => formatInstant.evaluate(undefined, { at: now, picture, zone }),
  }
}

function run(
  compiled: jsonata.Expression,
  text: string,
  bindings: Record<string, unknown>,
  readsEnv: boolean,
): unknown {
  let steps = 0
  let depth = 0
  const enter = (): void => {
    if (++steps > MAX_STEPS) throw new BoundReached(`it takes more than ${MAX_STEPS} steps`)
    if (++depth > MAX_DEPTH) throw new BoundReached(`it nests deeper than ${MAX_DEPTH} levels`)
  }
  const leave = (): void => {
    depth--
  }
  try {
    return compiled.evaluate(undefined, { ...bindings, __evaluate_entry: enter, __evaluate_exit: leave })
  } catch (error) {
    // JSONata quotes the values it stumbled over, and thereby a secret.
    const reason = readsEnv && !(error instanceof BoundReached) ? codeOf(error) : messageOf(error)
    const cause = readsEnv ? {} : { cause: error }
    throw new OnceishError('RENDER_FAILED', `the expression {%${text}%} fails: ${reason}`, cause)
  }
}

class BoundReached extends Error {}

function codeOf(error: unknown): string {
  return `JSONata error ${(error as { code?: string }).code ?? 'of unknown kind'}`
}

function messageOf(error: unknown): string {
  const message = (error as { message?: string }).message ?? String(error)
  return message.length <= 300 ? message : `${message.slice(0, 300)}...`
}
