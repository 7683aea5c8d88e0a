// What a scenario is and what it is given. One file each in scenarios/; main.ts runs them.

export type Size = 'quick' | 'full' | 'huge'

/** What is measured of one thing: a value a round, of which the median counts. */
export interface Figure {
  /** `20 ms server, 64 at once`. */
  readonly name: string
  /** `of bare undici`, `requests/s`, `ms`. */
  readonly unit: string
  /** One a round, in their order. */
  readonly values: readonly number[]
  /** What it must reach; none: it is told and nothing else. */
  readonly aim?: Aim
}

export type Aim = { readonly atLeast: number } | { readonly atMost: number }

export interface Bench {
  /** `quick` is for a look, `full` is what counts, `huge` adds what takes many minutes. */
  readonly size: Size
  /** At least 5, but for a quick look. */
  readonly rounds: number
  /** Empty, the scenario's own, on a real disk, gone after it. */
  readonly folder: string
  figure(figure: Figure): void
  /** What goes on, on stderr. */
  say(line: string): void
}

export interface Scenario {
  readonly name: string
  /** One line: what is compared with what. */
  readonly says: string
  run(bench: Bench): Promise<void>
}
