// Every scenario, in the order in which all of them run.
import type { Scenario } from './scenario.ts'
import { memory } from './scenarios/memory.ts'
import { recovery } from './scenarios/recovery.ts'
import { worker } from './scenarios/worker.ts'

export const SCENARIOS: readonly Scenario[] = [worker, memory, recovery]
