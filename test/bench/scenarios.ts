// Every scenario, in the order in which all of them run.
import type { Scenario } from './scenario.ts'
import { enqueue } from './scenarios/enqueue.ts'
import { idle } from './scenarios/idle.ts'
import { latency } from './scenarios/latency.ts'
import { worker } from './scenarios/worker.ts'

export const SCENARIOS: readonly Scenario[] = [worker, latency, idle, enqueue]
