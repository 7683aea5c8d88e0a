// Bounds on everything that a stranger can make large.
export const EVIDENCE_BODY_BYTES = 2048
export const MAX_LOGICAL_HASH_CHARS = 512
export const MAX_TASK_ID_CHARS = 1024
export const MAX_PRIORITY = 32767
export const ENQUEUE_BATCH_LINES = 1000
