import type { Command } from 'commander'
import type { Evidence } from '../../core/outcome.ts'
import type { EventView, RequestDetail } from '../../store/views.ts'
import { example, requestId } from '../arguments.ts'
import { type Context, withExistingStore } from '../context.ts'
import { notFound } from '../operator-result.ts'
import { type Cell, fields, instant, print, printJson, relative, shorten, table } from '../print.ts'
import { orphanTable } from './orphans.ts'

export function addShow(program: Command): void {
  program
    .command('show')
    .description('everything known of one request: state, evidence, time line, what can be done next')
    .argument('<id>', 'request id', requestId)
    .addHelpText('after', example('onceish show 17'))
    .action((id: number, _options: object, command: Command) =>
      withExistingStore(command, async (context) => {
        const detail = await context.once.get(id)
        if (detail === null) throw notFound(id)
        if (context.isJson) printJson(detail)
        else printDetail(detail, context)
      }),
    )
}

const PAYLOAD_CHARS = 2000

function printDetail(detail: RequestDetail, context: Context): void {
  const now = Date.now()
  print(fields(present([...facts(detail, now), ...attemptFacts(detail, now)])))
  if (detail.taskState?.evidence) section('evidence', fields(present(evidenceFacts(detail.taskState.evidence))))
  if (detail.prepared !== null) section('call', fields(callFacts(detail.prepared)))
  if (detail.payload !== null)
    section('payload', fields([['json', shorten(JSON.stringify(detail.payload), PAYLOAD_CHARS)]]))
  if (detail.events.length > 0) section('time line', timeLine(detail.events))
  if (detail.orphans.length > 0) section('orphans', orphanTable(detail.orphans))
  const actions = nextActions(detail)
  if (actions.length > 0)
    section(
      'next',
      table(
        ['command', 'when'],
        actions.map(([words, when]) => [context.next(words), when]),
      ),
    )
}

function section(title: string, body: string): void {
  print('', `${title}:`, body.replaceAll(/^/gm, '  '))
}

type Fact = readonly [name: string, value: Cell]

function present(rows: readonly Fact[]): readonly Fact[] {
  return rows.filter(([, value]) => value !== null && value !== '')
}

function facts(detail: RequestDetail, now: number): Fact[] {
  const { state, dueAt, dedupe } = detail
  return [
    ['request', detail.requestId],
    ['target', detail.target],
    ['state', state],
    ['why', detail.lastError],
    ['task id', detail.taskId],
    ['logical hash', detail.logicalHash],
    ['dedupe', dedupe],
    ['priority', detail.priority],
    ['attempts', `${detail.attempts} of the retry budget, last attempt number ${detail.attempt}`],
    ['version', detail.version],
    ['generation', detail.generation],
    ['created', at(detail.createdAt, now)],
    ['changed', at(detail.updatedAt, now)],
    ['due', state === 'scheduled' || state === 'ready' ? at(dueAt, now) : null],
  ]
}

function attemptFacts({ taskState }: RequestDetail, now: number): Fact[] {
  if (taskState === null) return []
  return [
    ['key', taskState.idempotencyKey],
    ['first call', at(taskState.startedAt, now)],
    ['last call ended', at(taskState.endedAt, now)],
    ['in doubt since', at(taskState.unknownSince, now)],
    ['earlier attempts in doubt', taskState.doubtfulAttempts.join(', ')],
    ['executed', taskState.executed ? 'yes: an answer showed that it happened' : null],
    ['cancel', taskState.cancelRequested ? 'asked for' : null],
    ['abandoned', taskState.abandoned ? 'yes, in doubt' : null],
    ['replays', taskState.replays || null],
    ['misses', taskState.misses || null],
    ['lease', taskState.leaseOwner === null ? null : `${taskState.leaseOwner}, until ${at(taskState.leaseUntil, now)}`],
    ['next check', at(taskState.nextCheckAt, now)],
  ]
}

function at(time: number | null, now: number): string | null {
  return time === null ? null : `${instant(time)} (${relative(time, now)})`
}

function evidenceFacts({ phase, status, headers, body, error, rule, note }: Evidence): Fact[] {
  return [
    ['phase', phase],
    ['status', status ?? null],
    ['error', error ?? null],
    ['rule', rule ?? null],
    ['note', note ?? null],
    ['headers', headers === undefined ? null : JSON.stringify(headers)],
    ['body', body ?? null],
  ]
}

function callFacts({ method, url, body, fingerprint }: NonNullable<RequestDetail['prepared']>): Fact[] {
  return [
    ['sent', `${method} ${url}`],
    ['body', body === null ? 'none' : `${Buffer.byteLength(body)} bytes`],
    ['fingerprint', fingerprint],
  ]
}

/** Repeats, such as hundreds of attempts while an API is down, are one line. */
function timeLine(events: readonly EventView[]): string {
  const rows = runsOf(events).map(({ first, last, count }) => [
    instant(first.at),
    count === 1 ? first.kind : `${first.kind} x${count}`,
    first.from === null || first.to === null ? null : `${first.from} -> ${first.to}`,
    first.attempt === last.attempt ? first.attempt : `${first.attempt}-${last.attempt}`,
    first.actor,
    shorten(first.reason, 80),
  ])
  return table(['at', 'event', 'change', 'attempt', 'by', 'why'], rows)
}

interface Run {
  readonly first: EventView
  readonly last: EventView
  readonly count: number
}

function runsOf(events: readonly EventView[]): Run[] {
  const runs: Run[] = []
  for (const event of events) {
    const run = runs.at(-1)
    if (run !== undefined && isAlike(run.last, event))
      runs[runs.length - 1] = { ...run, last: event, count: run.count + 1 }
    else runs.push({ first: event, last: event, count: 1 })
  }
  return runs
}

function isAlike(one: EventView, other: EventView): boolean {
  return (['kind', 'from', 'to', 'actor', 'reason'] as const).every((name) => one[name] === other[name])
}

function nextActions({ requestId: id, state, version, taskState }: RequestDetail): [words: string, when: string][] {
  const resolve = `resolve ${id} --if-version ${version}`
  if (state === 'held') {
    return [
      [`${resolve} --task-id TASK`, 'it happened: TASK is its id at the API'],
      [
        `${resolve} --not-executed`,
        `it did not happen: it is called again${taskState?.idempotencyKey ? ', under the same key' : ''}`,
      ],
      [`${resolve} --retry-accepting-duplicates`, 'a second effect would do no harm: it is called again as new'],
      [`${resolve} --abandon`, 'give it up, in doubt'],
    ]
  }
  if (state === 'unknown') return [['recover --dry-run', 'what recovery would do, and why']]
  if (state === 'dead' && !taskState?.abandoned)
    return [
      [`retry ${id}`, 'the cause is gone'],
      [`cancel ${id}`, 'it is not wanted any more'],
    ]
  return []
}
