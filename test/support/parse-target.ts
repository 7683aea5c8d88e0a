// One target as the config's loader reads it.
import { parseConfig } from '../../src/config/options.ts'
import type { TargetDefinition } from '../../src/config/target-definition.ts'

export function parseTarget(name: string, raw: unknown): TargetDefinition {
  const config = parseConfig({ targets: { [name]: raw }, worker: { leaseMs: '7d' } }, { path: null, baseDir: '/' })
  return config.targets[name] as TargetDefinition
}
