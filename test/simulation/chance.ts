// Chance that can be played again: the same seed draws the same numbers, on every machine.

/** Names and how often each is drawn, against the others. */
export type Weights<Name extends string> = readonly (readonly [Name, number])[]

export interface Chance {
  /** 0 up to 1. */
  next(): number
  /** 0 up to `count` - 1. */
  below(count: number): number
  /** True in `share` of the cases. */
  is(share: number): boolean
  pick<T>(items: readonly T[]): T
  weigh<Name extends string>(weights: Weights<Name>): Name
}

/** Mulberry32: 32 bits of state are enough for a schedule. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (count: number) => Math.floor(next() * count)
  return {
    next,
    below,
    is: (share) => next() < share,
    pick: (items) => items[below(items.length)] as (typeof items)[number],
    weigh: (weights) => {
      let left = next() * weights.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of weights) {
        left -= weight
        if (left < 0) return name
      }
      return (weights.at(-1) as (typeof weights)[number])[0]
    },
  }
}

/** The same names, each more or less often than usual: a schedule of its own mood meets what an average one seldom does. */
export function tempered<Name extends string>(weights: Weights<Name>, usual: Name, chance: Chance): Weights<Name> {
  return weights.map(([name, weight]) => [name, name === usual ? weight : weight * chance.pick([0, 0.5, 1, 1, 3])])
}
