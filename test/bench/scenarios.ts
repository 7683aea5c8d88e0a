// Every scenario, in the order in which all of them run.
import type { Scenario } from './scenario.ts'
import { claim } from './scenarios/claim.ts'
import { protocol } from './scenarios/protocol.ts'
import { size } from './scenarios/size.ts'
import { worker } from './scenarios/worker.ts'

export const SCENARIOS: readonly Scenario[] = [worker, protocol, claim, size]
