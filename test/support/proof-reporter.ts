// The closing summary: what the promise was put through in this run, and held.
import type { Reporter, TestCase } from 'vitest/node'
import { PROOF_WORDS, type Proof } from './proof.ts'

// biome-ignore lint/style/noDefaultExport: reporters named by their path are loaded by it
export default class ProofReporter implements Reporter {
  readonly #sums = new Map<Proof, number>()
  /** Cases from the field, by the number that their tests begin with: several tests may show one. */
  readonly #cases = new Set<string>()

  onTestCaseResult(test: TestCase): void {
    if (test.result().state !== 'passed') return
    const fieldCase = /^C\d\d /.exec(test.name)?.[0]
    if (fieldCase !== undefined) this.#cases.add(fieldCase)
    for (const [proof, count] of Object.entries(test.meta().proof ?? {}) as [Proof, number][]) {
      this.#sums.set(proof, (this.#sums.get(proof) ?? 0) + count)
    }
  }

  onTestRunEnd(): void {
    if (this.#cases.size > 0) this.#sums.set('fieldCases', this.#cases.size)
    if (this.#sums.size === 0) return
    const words = Object.entries(PROOF_WORDS) as [Proof, string][]
    const lines = words.flatMap(([proof, what]) => {
      const sum = this.#sums.get(proof)
      return sum === undefined ? [] : [`${sum.toLocaleString('en-US').padStart(10)}  ${what}`]
    })
    process.stdout.write(`\nWhat the promise was put through, and held:\n${lines.join('\n')}\n`)
  }
}
