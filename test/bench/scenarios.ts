// Every scenario, in the order in which all of them run.
import type { Scenario } from './scenario.ts'
import { churn } from './scenarios/churn.ts'
import { claim } from './scenarios/claim.ts'
import { enqueue } from './scenarios/enqueue.ts'
import { idle } from './scenarios/idle.ts'
import { isolation } from './scenarios/isolation.ts'
import { latency } from './scenarios/latency.ts'
import { memory } from './scenarios/memory.ts'
import { postgres } from './scenarios/postgres.ts'
import { protocol } from './scenarios/protocol.ts'
import { recovery } from './scenarios/recovery.ts'
import { size } from './scenarios/size.ts'
import { worker } from './scenarios/worker.ts'

export const SCENARIOS: readonly Scenario[] = [
  worker,
  protocol,
  claim,
  enqueue,
  latency,
  recovery,
  memory,
  size,
  idle,
  isolation,
  postgres,
  churn,
]
