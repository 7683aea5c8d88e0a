// The short stable words that say why a request is held, waits or is dead, in sentences for people. A word without a sentence
// here is shown as it is.
const SENTENCES: Readonly<Record<string, string>> = {
  // doubt, as it began
  unknown: 'the call was not answered clearly, so nobody knows yet what it did',
  lease_expired: 'its worker died or stalled in the call',
  restored: 'the store was put back from a copy, and nobody can tell whether it was called since',
  accepted_without_id: 'the API accepted it, and its answer showed no task id',
  exists_without_id: 'the API has it already, and its answer showed no task id',
  in_flight: 'the API is still working on an earlier call under this key',
  not_executed_in_doubt: 'the last call surely had no effect, an earlier one may have had',
  blocked_in_doubt: 'the last call was refused for its credentials, an earlier one may have had an effect',
  // what recovery waits for
  lookup_undetermined: 'the lookup could not tell: it failed, or its answer does not show everything',
  miss_not_settled: 'the lookup shows nothing, and the call has not been over for long enough to count that',
  miss_too_soon: 'the lookup shows nothing, too soon after the last miss to count',
  settled_miss: 'the lookup shows nothing, long enough after the call to count',
  window_closing: 'the key would be forgotten before the lookup can decide',
  clock_behind: 'the clock is behind what the store has seen, so that it proves nothing about the key',
  recovery_failed: 'looking into it failed',
  target_paused: 'its target is paused',
  ordering: 'another of its ordering key goes first',
  told_to_wait: 'the API told its target to wait',
  breaker_open: 'the calls of its target failed one after the other, and a probe tries first whether it works again',
  // held
  opaque: 'the API can be asked nothing, and nothing can be repeated safely',
  unproven: 'no rung of the ladder could settle it',
  no_lookup: 'there is nothing to look it up by',
  no_key: 'there is no key to repeat it under',
  key_window_closed: 'the API may have forgotten the key by now, so that a repeat could be a second effect',
  key_window_unknown: 'nobody says how long the API remembers the key',
  replays_spent: 'it was repeated under its key as often as allowed, without a clear answer',
  attempts_spent: 'its attempts are spent',
  lease_shorter_than_call: 'a repeat may take longer than leases last here',
  miss_means_hold: 'the lookup shows nothing, and a miss is no proof for this target',
  miss_without_proof: 'the lookup shows nothing, and that proves nothing any more',
  lookup_memory_over: 'the lookup shows nothing, and the API may have forgotten the task by now',
  several_tasks: 'more than one task was found',
  found_other_generation: 'a task was found that an earlier request of the same hash may have made',
  account_changed:
    'the config names another account or origin than the one that was called; for a key that is rotated, `account` of the target, set before, says that it is the same account',
  executed_without_id: 'an answer showed that it happened, without a task id',
  rejected_in_doubt: 'the last call was refused, an earlier one may have had an effect',
  exists_not_ours: 'something of this name exists at the API, and it is not ours',
  mismatch: 'the API knows the key with another payload',
  deadline: 'it has been in doubt for as long as the target allows',
  description_missing: 'the description or code that made the call is not loaded here',
  settlement_failed: 'its answer could not be written as it came',
  cancel_requested: 'it is to be canceled',
  cancel_unproven: 'it is to be canceled, and nobody can tell whether it happened',
  cancel_unsupported: 'it is to be canceled, and the target does not say how',
  cancel_failed: 'it is to be canceled, and the API did not do it',
  cancel_without_id: 'it is to be canceled, and it happened without a task id to cancel by',
  // dead, canceled, queued again
  rejected: 'the API refused it for good',
  expired: 'its deadline is over, and it surely did not happen before',
  render_failed: 'the payload does not fit the description of its target',
  abandoned: 'a person gave it up, in doubt',
  not_executed: 'the call surely had no effect',
  parked: 'the API told it to wait for longer than rateLimit.maxWaitMs; it goes on by itself when it is due',
  blocked: 'the API refused the credentials',
  retried: 'a person queued it again',
  resolved_not_executed: 'a person said that it did not happen',
  resolved_retry_accepting_duplicates: 'a person had it called again, whatever the last call did',
  // ends
  no_effect: 'its call surely had no effect',
  cancel_at_api: 'its task is known, and is canceled at the API',
  canceled_at_api: 'its task was canceled at the API',
  answer: 'the API answered',
  lookup: 'the lookup found it',
  late_answer: 'a late answer named it',
  older_attempt: 'an earlier call had made it',
  adopted: 'a person made an orphan its task',
  resolved: 'a person said so',
  task_id: 'a person said: it happened',
  retry_accepting_duplicates: 'a person said: call again, whatever the last call did',
  abandon: 'a person gave it up, in doubt',
  not_found_at_api: 'the API does not know the task',
  unlisted_state: 'the API names a state that the target does not',
  status_undetermined: 'the API could not say what became of the task',
  another_task: 'the API made another task than the one that the request was settled on',
  task_of_an_ended_request: 'the API made a task for a request that had ended without one',
}

/** Of a target that paused itself: its API refused the credentials. A person's pause names what they gave as its reason. */
export function isOfCredentials(pauseReason: string | null): boolean {
  return pauseReason?.startsWith('blocked: ') ?? false
}

/** In this order: a worker reads its environment when it starts, so that one with the old key would pause the target again. */
export function credentialsCure(resume: string): string {
  return `mend the key, restart every worker, then ${resume}`
}

export function sayReason(reason: string): string {
  return SENTENCES[reason] ?? reason
}
