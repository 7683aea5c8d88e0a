// Every scenario, in the order in which all of them run.
import type { Scenario } from './scenario.ts'
import { protocol } from './scenarios/protocol.ts'
import { worker } from './scenarios/worker.ts'

export const SCENARIOS: readonly Scenario[] = [worker, protocol]
