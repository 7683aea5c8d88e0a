// Bounds on everything that a stranger can make large.
export const EVIDENCE_BODY_BYTES = 2048
export const MAX_LOGICAL_HASH_CHARS = 512
/** Of ordering keys and groups. */
export const MAX_KEY_BYTES = 256
export const MAX_TASK_ID_CHARS = 1024
export const MAX_PRIORITY = 32767
export const ENQUEUE_BATCH_LINES = 1000
export const ENQUEUE_BATCH_CHARS = 8 * 1024 * 1024
/** How soon those who wait for a commit hear of another process's; asking costs microseconds. */
export const POLL_MS = 25
/** How far ahead a drain or a recovery waits for what is due. */
export const DRAIN_HORIZON_MS = 3_600_000
