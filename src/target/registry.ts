// The targets of one process: the present ones by name, and earlier descriptions for the doubt that they made.
import type { CodeTargetDefinition } from '../config/code-target-schema.ts'
import type { TargetDefinition } from '../config/target-definition.ts'
import { createCodeTarget, recallCodeTarget } from './code/code-target.ts'
import { createHttpTarget, type HttpTargetOptions } from './http/http-target.ts'
import type { Target, TargetRegistry } from './target.ts'

export interface PresentTargets {
  readonly described: readonly TargetDefinition[]
  readonly coded?: readonly CodeTargetDefinition[]
}

export interface RegistryOptions extends HttpTargetOptions {
  /** What tests stand between. */
  readonly seam?: ((target: Target) => Target) | undefined
}

export function createTargetRegistry(
  { described, coded = [] }: PresentTargets,
  { seam = (target) => target, ...options }: RegistryOptions,
): TargetRegistry {
  const targets = [
    ...described.map((definition) => createHttpTarget(definition, options)),
    ...coded.map(createCodeTarget),
  ].map(seam)
  const byName = new Map(targets.map((target) => [target.name, target]))
  const earlier = new Map<string, Target>()

  /** Once rebuilt, a description is known by its version alone. */
  function rebuilt(name: string, version: string, description: string | null): Target | undefined {
    const id = JSON.stringify([name, version])
    const known = earlier.get(id)
    if (known !== undefined || description === null) return known
    const present = coded.find((definition) => definition.name === name)
    const target = rebuild(name, description, present, options)
    if (target !== undefined) earlier.set(id, seam(target))
    return earlier.get(id)
  }

  return {
    targets,
    get: (name) => byName.get(name),
    at: (name, version, description) => {
      const present = byName.get(name)
      if (present !== undefined && (version === null || version === present.version)) return present
      return version === null ? undefined : rebuilt(name, version, description)
    },
    close: async () => {
      await Promise.all([...targets, ...earlier.values()].map((target) => target.close()))
    },
  }
}

/** Undefined where this release cannot read the description, or its code is not loaded: its rows wait for a person. */
function rebuild(
  name: string,
  description: string,
  present: CodeTargetDefinition | undefined,
  options: HttpTargetOptions,
): Target | undefined {
  try {
    const definition = JSON.parse(description) as TargetDefinition & { readonly kind?: unknown }
    if (definition.kind === 'code') return (present && recallCodeTarget(present, description)) ?? undefined
    return definition.name === name ? createHttpTarget(definition, options) : undefined
  } catch {
    return undefined
  }
}
