// Real calls whose answers reach the worker only when they are let go: what happens between the two is the test's.
import type { Target } from '../../../src/target/target.ts'

export interface HeldAnswers {
  readonly seam: (target: Target) => Target
  /** Answers that have come from the API. */
  arrived(): number
  /** These and all later ones reach the worker. */
  letGo(): void
}

export function holdAnswers(): HeldAnswers {
  let arrived = 0
  let letGo: () => void = () => {}
  const isLetGo = new Promise<void>((resolve) => {
    letGo = resolve
  })
  const seam = (target: Target): Target =>
    new Proxy(target, {
      get: (whole, name) => {
        const member: unknown = Reflect.get(whole, name)
        if (name !== 'invoke') return typeof member === 'function' ? member.bind(whole) : member
        const invoke: Target['invoke'] = async (prepared, options) => {
          const outcome = await whole.invoke(prepared, options)
          arrived++
          await isLetGo
          return outcome
        }
        return invoke
      },
    })
  return { seam, arrived: () => arrived, letGo: () => letGo() }
}
