import type { Command } from 'commander'
import type { Evidence } from '../../core/outcome.ts'
import { sayReason } from '../../core/reasons.ts'
import { isQueued } from '../../core/task-state.ts'
import type { RequestStory } from '../../recovery/outlook.ts'
import type { TimeLineEntry } from '../../store/time-line.ts'
import type { RequestDetail } from '../../store/views.ts'
import { example, requestId } from '../arguments.ts'
import { type Context, quoted, withExistingStore } from '../context.ts'
import { evidenceWords } from '../evidence.ts'
import { type NextAction, nextActions } from '../next-actions.ts'
import { notFound } from '../operator-result.ts'
import { type Cell, fields, instant, plural, print, printJson, relative, shorten, table } from '../print.ts'
import { headWords } from '../stuck-keys.ts'
import { orphanTable } from './orphans.ts'

export function addShow(program: Command): void {
  program
    .command('show')
    .description('the whole story of one request: state, evidence, time line, what happens next, what can be done')
    .argument('<id>', 'request id', requestId)
    .addHelpText('after', example('onceish show 17'))
    .action((id: number, _options: object, command: Command) =>
      withExistingStore(command, async (context) => {
        const detail = await context.once.get(id)
        if (detail === null) throw notFound(id)
        const next = allActions(detail).map(({ words }) => context.next(words))
        if (context.isJson) printJson({ ...detail, next })
        else printDetail(detail, context)
      }),
    )
}

const PAYLOAD_CHARS = 2000

function printDetail(detail: RequestStory, context: Context): void {
  const now = Date.now()
  print(fields(present([...facts(detail, now), ...attemptFacts(detail, now)])))
  if (detail.taskState?.evidence) section('evidence', fields(present(evidenceFacts(detail.taskState.evidence))))
  if (detail.prepared !== null) section('call', fields(callFacts(detail.prepared)))
  if (detail.payload !== null)
    section('payload', fields([['json', shorten(JSON.stringify(detail.payload), PAYLOAD_CHARS)]]))
  section('time line', timeLine(detail.timeLine))
  if (detail.orphans.length > 0) section('orphans', orphanTable(detail.orphans))
  const commands = commandsOf(detail, context)
  section('next', [fields(present(outlookFacts(detail, now))), ...(commands === '' ? [] : ['', commands])].join('\n'))
}

function section(title: string, body: string): void {
  print('', `${title}:`, body.replaceAll(/^/gm, '  '))
}

type Fact = readonly [name: string, value: Cell]

function present(rows: readonly Fact[]): readonly Fact[] {
  return rows.filter(([, value]) => value !== null && value !== '')
}

function facts(detail: RequestDetail, now: number): Fact[] {
  const { state, dueAt, expiresAt, dedupe } = detail
  return [
    ['request', detail.requestId],
    ['target', detail.target],
    ['state', state],
    ['why', whyWords(detail)],
    ['task id', detail.taskId],
    ['logical hash', detail.logicalHash],
    ['dedupe', dedupe],
    ['priority', detail.priority],
    ['attempts', `${detail.attempts} of the retry budget, last attempt number ${detail.attempt}`],
    ['version', detail.version],
    ['generation', detail.generation],
    ['created', at(detail.createdAt, now)],
    ['changed', at(detail.updatedAt, now)],
    ['ordering key', detail.orderingKey],
    ['group', detail.group],
    ['place in line', lineWords(detail)],
    ['due', isQueued(state) ? at(dueAt, now) : null],
    ['expires', at(expiresAt, now)],
  ]
}

function lineWords({ line, behind }: RequestDetail): string | null {
  if (line === null) return null
  if (behind !== null)
    return `${line.place} of ${line.waiting + 1}, behind request ${behind.requestId}, ${headWords(behind)}`
  return line.waiting === 0 ? 'first, and the only one' : `first; ${plural(line.waiting, 'other')} waiting`
}

function whyWords({ reason, lastError }: RequestDetail): string | null {
  return reason === null ? null : `${lastError}: ${sayReason(reason)}`
}

function attemptFacts({ taskState }: RequestDetail, now: number): Fact[] {
  if (taskState === null) return []
  return [
    ['key', taskState.idempotencyKey],
    ['first call', at(taskState.startedAt, now)],
    ['last call ended', at(taskState.endedAt, now)],
    ['doubt noticed', at(taskState.unknownSince, now)],
    ['attempts in doubt', taskState.doubtfulAttempts.join(', ')],
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
function timeLine(entries: readonly TimeLineEntry[]): string {
  const rows = runsOf(entries).map(({ first, last, times }) => [
    instant(first.at),
    times === 1 ? first.kind : `${first.kind} x${times}`,
    first.from === null ? first.to : `${first.from} -> ${first.to}`,
    first.attempt === last.attempt ? first.attempt : `${first.attempt}-${last.attempt}`,
    first.actor,
    shorten(saidBy(first), SAID_CHARS),
  ])
  return table(['at', 'event', 'state', 'attempt', 'by', 'what'], rows)
}

const SAID_CHARS = 240

function saidBy({ said, key, fingerprint, kind, evidence, note }: TimeLineEntry): string {
  const isCall = kind === 'replay' || kind === 'recall'
  const call = isCall && key !== null ? `key ${key}${fingerprint === null ? '' : `, fingerprint ${fingerprint}`}` : ''
  const told = [said, call].filter((words) => words !== '').join(', ')
  const seen = evidence === null ? '' : `[${shorten(evidenceWords(evidence), SAID_CHARS / 2)}]`
  const noted = note === null ? '' : `"${note}"`
  return [told, seen, noted].filter((words) => words !== '').join(' ')
}

interface Run {
  readonly first: TimeLineEntry
  readonly last: TimeLineEntry
  readonly times: number
}

function runsOf(entries: readonly TimeLineEntry[]): Run[] {
  const runs: Run[] = []
  for (const entry of entries) {
    const run = runs.at(-1)
    if (run !== undefined && isAlike(run.last, entry))
      runs[runs.length - 1] = { ...run, last: entry, times: run.times + entry.times }
    else runs.push({ first: entry, last: entry, times: entry.times })
  }
  return runs
}

function isAlike(one: TimeLineEntry, other: TimeLineEntry): boolean {
  return (['kind', 'from', 'to', 'actor', 'reason', 'said', 'note'] as const).every((name) => one[name] === other[name])
}

function outlookFacts({ outlook }: RequestStory, now: number): Fact[] {
  const { by, step, at: when, why, windowClosesAt, deadlineAt } = outlook
  return [
    ['what', step === 'none' ? null : `${STEPS[step]}${by === 'worker' ? ', by a worker' : ''}`],
    ['not before', at(when, now)],
    ['why', why],
    ['replay until', at(windowClosesAt, now)],
    ['held at', at(deadlineAt, now)],
  ]
}

const STEPS: Readonly<Record<Exclude<RequestStory['outlook']['step'], 'none'>, string>> = {
  call: 'called',
  wait: 'looked into when its lease is over',
  lookup: 'looked up',
  replay: 'replayed under its key',
  hold: 'held',
  cancel: 'canceled at the API',
  ask: 'asked about',
  resume: 'waits until its target is resumed',
  turn: 'waits for its turn',
  word: 'waits for your word',
}

/** Those of its state, and those that its target and its orphans ask for. */
function allActions(story: RequestStory): readonly NextAction[] {
  const { outlook, target, orphans, behind } = story
  const resume = { words: `resume ${quoted(target)}`, when: 'the reason for the pause is gone' }
  const look = { words: 'orphans', when: 'adopt one of its orphans, or dismiss them' }
  const ahead = { words: `show ${behind?.requestId}`, when: 'the request of its ordering key that goes first' }
  return [
    ...(outlook.step === 'resume' ? [resume] : []),
    ...(behind === null ? [] : [ahead]),
    ...nextActions(story),
    ...(orphans.length > 0 ? [look] : []),
  ]
}

function commandsOf(story: RequestStory, { next }: Context): string {
  const rows = allActions(story).map(({ words, when }) => [next(words), when])
  return rows.length === 0 ? '' : table(['command', 'when'], rows)
}
