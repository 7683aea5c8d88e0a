// Each rule of safety, and the product without it: a text of the build that is replaced in a copy. What breaks is found by
// the simulation; `seed` is a schedule that shows it.
import type { Patch } from './library.ts'

export interface Rule {
  /** Letters, digits and hyphens. */
  readonly name: string
  readonly what: string
  readonly patches: readonly Patch[]
  readonly seed: number
}

export const RULES: readonly Rule[] = []
