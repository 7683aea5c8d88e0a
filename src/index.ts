// Public API: every export is named here.
export type {
  EachOptions,
  Onceish,
  OpenConfig,
  OpenSettings,
  OpenTargets,
  RequestOf,
  WordOptions,
  WorkOptions,
} from './api.ts'
export type {
  BreakerDescription,
  CodeTarget,
  CodeTargetOptions,
  CodeTargetPolicy,
  Duration,
  GivenTaskId,
  Inquiry,
  Invocation,
  LookupAnswer,
  RateDescription,
  StatusAnswer,
  SubmitResult,
  WaitDescription,
} from './config/code-target.ts'
export { defineTarget } from './config/code-target.ts'
export type { Config, WorkerOptions } from './config/config.ts'
export {
  type CallDescription,
  type DescribedTarget,
  httpTarget,
  type TargetDescription,
} from './config/described-target.ts'
export type { BucketDescription, GivenTarget, PayloadsOf, TargetsInCode } from './config/in-code.ts'
export { type LoadOptions, loadConfig } from './config/load-config.ts'
export type { TemplateValue } from './config/target-definition.ts'
export type { WorkerCounters } from './consumer/counters.ts'
export type { WorkerReport } from './consumer/tally.ts'
export type { Worker } from './consumer/worker.ts'
export type { Clock } from './core/clock.ts'
export { ERROR_CODES, type ErrorCode, isOnceishError, OnceishError } from './core/errors.ts'
export type { Log } from './core/log.ts'
export type { CallPhase, Evidence, Outcome, OutcomeKind } from './core/outcome.ts'
export type { PayloadInput, PayloadOutput, PayloadSchema, SchemaIssue, SchemaResult } from './core/payload-schema.ts'
export {
  type Buckets,
  DEDUPES,
  type Dedupe,
  type FailedFirst,
  type Limits,
  type OnDead,
  type RateLimit,
  type RecoveryRung,
  type WaitScope,
} from './core/policy.ts'
export type { PreparedCall } from './core/prepared-call.ts'
export {
  AcceptedWithoutIdError,
  BlockedError,
  InFlightError,
  MismatchError,
  NotExecutedError,
  RejectedError,
  type Waits,
} from './core/submission-errors.ts'
export {
  ENDED_STATES,
  type EndedState,
  type OlderAnswer,
  REQUEST_STATES,
  type RequestState,
  type StoredState,
  type TaskState,
  TRANSITIONS,
} from './core/task-state.ts'
export type { BackupOptions, BackupReport } from './maintenance/backup.ts'
export {
  type CopyOptions,
  type CopyProgressReport,
  type CopyReport,
  copyStore,
  type UndoCopyOptions,
  type UndoCopyReport,
  undoCopy,
} from './maintenance/copy.ts'
export type { Check } from './maintenance/doctor/check.ts'
export { type DiagnoseOptions, diagnose } from './maintenance/doctor/diagnose.ts'
export type { PurgeOptions, PurgeProgress, PurgeReport } from './maintenance/purge.ts'
export { openOnceish } from './onceish.ts'
export type { Enqueued } from './producer/enqueue.ts'
export type { EnqueueLinesReport, LineError, LinesOptions } from './producer/enqueue-lines.ts'
export type { EnqueueRequest, GivenInstant } from './producer/new-request.ts'
export type { DryRunLine } from './recovery/dry-run.ts'
export type { Outlook, RequestStory } from './recovery/outlook.ts'
export type { LadderStep } from './recovery/reconcile.ts'
export type { RestoredOptions, RestoredReport } from './recovery/restored.ts'
export type { EachFilter, SaidReport, SaidRequest } from './recovery/say-to-each.ts'
export type { StoreOrigin } from './store/origin.ts'
export type { CallerClient, CallerConnection } from './store/store.ts'
export type { TimeLineEntry } from './store/time-line.ts'
export type { KeptReason } from './store/upkeep.ts'
export type {
  EventView,
  GroupsStatus,
  HeadOfKey,
  ListedOrphan,
  NewDeadline,
  OpenBreakerView,
  OperatorResult,
  OrphanResult,
  OrphanView,
  Pause,
  PauseCause,
  PlaceInLine,
  PriorityWait,
  RequestDetail,
  RequestEvent,
  RequestFilter,
  RequestView,
  Resolution,
  StoreFacts,
  StoreStatus,
  StuckKey,
  TargetStatus,
  TimedPause,
} from './store/views.ts'
export type { EventOptions } from './watch/event-feed.ts'
export type { WaitOptions } from './watch/wait-for.ts'
