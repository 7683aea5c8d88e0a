// A person at the command line, who looks before they speak, and only says what is so.
import type { Onceish } from '../../src/index.ts'
import type { OperatorResult, RequestDetail } from '../../src/store/views.ts'
import type { ApiModel, Kind } from './api-model.ts'
import type { Chance } from './chance.ts'
import type { LimitsWatch } from './limits-watch.ts'
import type { Ledger, Owed } from './owed.ts'
import type { Schedule } from './schedule.ts'
import { KINDS } from './targets.ts'

export interface Surroundings {
  readonly operator: Onceish
  readonly chance: Chance
  readonly schedule: Schedule
  readonly api: ApiModel
  readonly ledger: Ledger
  readonly limits: LimitsWatch
  /** A clock that jumped has made waits that are told by it worthless. */
  readonly hasJumped: boolean
}

export async function speak(around: Surroundings): Promise<void> {
  const { operator, chance, schedule, ledger, limits } = around
  const one = ledger.all.length === 0 ? null : chance.pick(ledger.all)
  const seen = one === null || one.isGone ? null : await operator.get(one.requestId)
  if (one === null || seen === null) return
  const word = { ifVersion: seen.version }
  const note = ({ kind }: OperatorResult, what: string) => schedule.note(`a person ${what} ${one.name}: ${kind}`)
  switch (chance.pick(['cancel', 'retry', 'resolve', 'resolve', 'pause', 'resume', 'resume'] as const)) {
    case 'cancel':
      return note(await operator.cancel(one.requestId, word), 'cancels')
    case 'retry': {
      const result = await operator.retry(one.requestId, { ...word, ...lastingDeadline(seen) })
      if (result.kind === 'applied') toldAgain(one)
      return note(result, 'retries')
    }
    case 'pause':
      await operator.pause(one.kind)
      limits.onPause(one.kind)
      return schedule.note(`a person pauses ${one.kind}`)
    case 'resume':
      return resume(KINDS, operator, limits)
    case 'resolve':
      if (seen.state === 'held') await resolve(around, one, seen)
  }
}

function toldAgain(one: Owed): void {
  one.words++
  one.isBack = true
}

/** Whoever has it called wants it however late it is. */
function lastingDeadline({ expiresAt }: RequestDetail): { readonly expiresAt?: null } {
  return expiresAt === null ? {} : { expiresAt: null }
}

export async function resume(kinds: readonly Kind[], operator: Onceish, limits: LimitsWatch): Promise<void> {
  for (const kind of kinds) {
    await operator.resume(kind)
    limits.onResume(kind)
  }
}

async function resolve(around: Surroundings, one: Owed, seen: RequestDetail): Promise<void> {
  const { operator, chance, schedule, api, hasJumped } = around
  const word = { ifVersion: seen.version }
  const taskId = api.effects.find(({ of }) => of === one.name)?.id
  if (taskId !== undefined && chance.is(0.7)) {
    const result = await operator.resolve(one.requestId, { kind: 'task_id', taskId }, word)
    return schedule.note(`a person says that ${one.name} is ${taskId}: ${result.kind}`)
  }
  // What nobody can see is still on its way: the product makes them wait for that, by a clock that must be right.
  if (taskId === undefined && chance.is(0.7) && !(hasJumped && api.mayLand(one.name))) {
    const result = await operator.resolve(one.requestId, { kind: 'not_executed' }, word)
    if (result.kind === 'applied') toldAgain(one)
    return schedule.note(`a person says that ${one.name} never happened: ${result.kind}`)
  }
  const accepting = { kind: 'retry_accepting_duplicates', ...lastingDeadline(seen) } as const
  const result = await operator.resolve(one.requestId, accepting, word)
  if (result.kind === 'applied') {
    toldAgain(one)
    one.accepted += Math.max(1, seen.taskState?.doubtfulAttempts.length ?? 1)
  }
  schedule.note(`a person accepts a duplicate of ${one.name}: ${result.kind}`)
}
