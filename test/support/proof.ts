// What the tests have put the promise through, added up for the closing summary (proof-reporter.ts prints it).
import { TestRunner } from 'vitest'

/** What is counted, in the order and the words of the summary. */
export const PROOF_WORDS = {
  schedules: 'schedules simulated',
  crashes: 'simulated processes killed in them',
  kills: 'real processes killed',
  cells: 'cells of the crash matrix',
  faults: 'HTTP faults met',
  fieldCases: 'cases from the field',
  rules: 'rules taken out, and seen to break',
  syncedCalls: 'calls traced to a sync before their first byte',
} as const
export type Proof = keyof typeof PROOF_WORDS

declare module '@vitest/runner' {
  interface TaskMeta {
    proof?: Partial<Record<Proof, number>>
  }
}

/** Adds to what the running test has shown; outside of one it counts nothing. */
export function countProof(proof: Proof, by = 1): void {
  const meta = TestRunner.getCurrentTest()?.meta
  if (meta === undefined) return
  meta.proof = { ...meta.proof, [proof]: (meta.proof?.[proof] ?? 0) + by }
}
