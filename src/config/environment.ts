// The environment, which is read here and nowhere else: secrets come from it by name, and the names are known before
// any call is made.
import { OnceishError } from '../core/errors.ts'
import type { Config } from './config.ts'
import { templatesOf, tryCompile } from './target-templates.ts'

export type Environment = Readonly<Record<string, string | undefined>>

interface Need {
  readonly name: string
  readonly target: string
  readonly path: string
}

/** A snapshot of this process's environment. */
export function readEnvironment(): Environment {
  return Object.freeze({ ...process.env })
}

/** Names that the targets need, sorted; all targets where none are named. */
export function neededEnv(config: Config, targetNames?: readonly string[]): string[] {
  return [...new Set(needsOf(config, targetNames).map((need) => need.name))].sort()
}

/** Throws OnceishError ENV_MISSING naming every name that is unset or empty, and who needs it. */
export function assertEnvSet(config: Config, env: Environment, targetNames?: readonly string[]): void {
  const missing = needsOf(config, targetNames).filter((need) => !env[need.name])
  if (missing.length === 0) return
  const lines = missing.map(({ name, target, path }) => `${name} (needed by targets.${target}.${path})`)
  const names = [...new Set(missing.map((need) => need.name))]
  throw new OnceishError('ENV_MISSING', `not set in the environment:\n${lines.join('\n')}`, { details: { names } })
}

function needsOf(config: Config, targetNames: readonly string[] | undefined): Need[] {
  const targets = Object.values(config.targets).filter(({ name }) => targetNames?.includes(name) ?? true)
  return targets.flatMap((target) =>
    templatesOf(target).flatMap((place) =>
      [...(tryCompile(place)?.envNames ?? [])].map((name) => ({ name, target: target.name, path: place.path })),
    ),
  )
}
