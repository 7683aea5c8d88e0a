// Machines are noisy and change their speed: what is compared runs in turn, round by round, and a ratio is taken within a round.

/** A thing to be measured: gives its value of one round. */
export type Arm = () => number | Promise<number>

/**
 * Runs every arm once a round, each round in another order.
 * @returns what each measured, by its name, a value a round.
 */
export async function inTurn<Name extends string>(
  rounds: number,
  arms: Readonly<Record<Name, Arm>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(arms) as Name[]
  const measured = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>
  for (let round = 0; round < rounds; round++) {
    const first = round % names.length
    for (const name of [...names.slice(first), ...names.slice(0, first)]) measured[name].push(await arms[name]())
  }
  return measured
}

/** One value by the other, round by round. */
export function ratios(of: readonly number[], by: readonly number[]): number[] {
  return of.map((value, round) => value / (by[round] ?? Number.NaN))
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

/** Between the two nearest values. @param share from 0 to 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)] ?? Number.NaN
  const above = sorted[Math.ceil(at)] ?? Number.NaN
  return below + (above - below) * (at - Math.floor(at))
}
