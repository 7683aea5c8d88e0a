// Public API: every export is named here.
export type { Config } from './config/config.ts'
export { loadConfig } from './config/load-config.ts'
export type { WorkerReport } from './consumer/tally.ts'
export type { Worker } from './consumer/worker.ts'
export { ERROR_CODES, type ErrorCode, isOnceishError, OnceishError } from './core/errors.ts'
export type { Log } from './core/log.ts'
export { REQUEST_STATES, type RequestState, TRANSITIONS } from './core/task-state.ts'
export { type Onceish, type OpenOptions, openOnceish, type WordOptions, type WorkOptions } from './onceish.ts'
export type { Enqueued } from './producer/enqueue.ts'
export type { EnqueueLinesReport, LineError } from './producer/enqueue-lines.ts'
export type { EnqueueRequest } from './producer/new-request.ts'
export type { DryRunLine } from './recovery/dry-run.ts'
export type {
  EventView,
  OperatorResult,
  OrphanView,
  RequestDetail,
  RequestView,
  Resolution,
  StoreFacts,
  StoreStatus,
  TargetStatus,
} from './store/store.ts'
