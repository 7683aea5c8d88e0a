// What went wrong around one worker since its start, as plain numbers for whoever keeps metrics.

/** Counts since the worker's start; they only rise. */
export interface WorkerCounters {
  /** Transactions that were tried, those that failed included. */
  readonly turns: number
  /** Tries that failed since another process kept the store locked. */
  readonly storeBusy: number
  /** Tries that failed for want of space. */
  readonly storeFull: number
  /** Tries that failed since the store's server was not to be reached. */
  readonly storeUnreachable: number
  /** Tries that failed for any other reason of the machine: input and output, permissions. */
  readonly storeFailed: number
  /** Calls whose lease had run out or was another's when it was to be renewed. */
  readonly leasesLost: number
  /** Calls that did not leave, since their lease or their key's window no longer covered them. */
  readonly callsKeptBack: number
  /** Answers that found their place taken and changed nothing. */
  readonly answersFenced: number
  /** Answers written to a file beside the store, which took none. */
  readonly answersSpilled: number
  /** Answers read back from what other workers had left in such files. */
  readonly answersReadBack: number
  /** Times that the process stood still for a quarter of its lease or longer: blocked, stopped or suspended. */
  readonly stalls: number
}

/** Whoever sees it happen counts it. */
export type Counting = { -readonly [Name in keyof WorkerCounters]: number }

export function createCounters(): Counting {
  return {
    turns: 0,
    storeBusy: 0,
    storeFull: 0,
    storeUnreachable: 0,
    storeFailed: 0,
    leasesLost: 0,
    callsKeptBack: 0,
    answersFenced: 0,
    answersSpilled: 0,
    answersReadBack: 0,
    stalls: 0,
  }
}
