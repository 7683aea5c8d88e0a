import type { Command } from 'commander'
import { type Config, isTargetOf, targetNames } from '../../config/config.ts'
import { REQUEST_STATES } from '../../core/task-state.ts'
import type { StoreOrigin } from '../../store/origin.ts'
import { type StoreStatus, type TargetStatus, UNSEEN_TARGET } from '../../store/views.ts'
import { example } from '../arguments.ts'
import { attentionLines, attentionOf } from '../attention.ts'
import { type Context, withExistingStore } from '../context.ts'
import { print, printJson, relative, shorten, table } from '../print.ts'
import { actionsOfHead, stuckKeyLines } from '../stuck-keys.ts'
import { breakerLines, lasting, waitLines, waitRemark } from '../waits.ts'

export function addStatus(program: Command): void {
  program
    .command('status')
    .description('how many requests are in which state, and what needs a person')
    .addHelpText('after', example('onceish status', 'onceish status --json'))
    .action((_options: object, command: Command) =>
      withExistingStore(command, async (context) => {
        const [status, origin] = [await context.once.status(), await context.once.origin()]
        if (context.isJson) printJson({ ...toJson(status, context), origin: origin.kind })
        else {
          printStatus(status, context)
          print(...originLines(origin, context))
        }
      }),
    )
}

/** Of a target; `--json` has all. */
const SHOWN_PRIORITIES = 5

/** Those of the config first, in its order. */
function allTargets(status: StoreStatus, config: Config): Record<string, TargetStatus> {
  const known = Object.fromEntries(targetNames(config).map((name) => [name, UNSEEN_TARGET]))
  const now = Date.now()
  const seen = Object.entries(status.targets).map(([name, target]): [string, TargetStatus] => {
    return [name, { ...target, waits: lasting(target.waits, now) }]
  })
  return { ...known, ...Object.fromEntries(seen) }
}

function toJson(status: StoreStatus, { config, next }: Context): object {
  const { states, expired, oldestReady, oldestUnknown, orphans } = status
  const { held, dead, unroutable, stuck } = attentionOf(status, targetNames(config), null)
  const needs = { held, dead, expired, unroutable, orphans, stuck }
  const stuckKeys = status.stuckKeys.map(({ head, ...key }) => {
    const { requestId, state, reason } = head
    return { ...key, head: { requestId, state, reason }, next: actionsOfHead(head).map(({ words }) => next(words)) }
  })
  return { states, targets: allTargets(status, config), oldestReady, oldestUnknown, ...needs, stuckKeys }
}

function printStatus(status: StoreStatus, { config, next }: Context): void {
  const now = Date.now()
  const shown = REQUEST_STATES.filter((state) => status.states[state])
  const targets = Object.entries(allTargets(status, config))
  const rows = targets.map(([name, { states, paused, waits, breaker }]) => [
    name,
    ...shown.map((state) => states[state] ?? 0),
    remark(name, paused, config) ?? (breaker === null ? waitRemark(waits, now) : 'breaker open'),
  ])
  if (rows.length > 1) rows.push(['all', ...shown.map((state) => status.states[state] ?? 0), null])
  print(table(['target', ...shown, 'remark'], rows))
  print(...breakerLines(status, now), ...waitLines(status, now, next))
  if (shown.length === 0) print('', 'no requests yet')
  if (status.oldestReady !== null) print('', ...oldestLines(status, now))
  print(...groupLines(status, now))
  if (status.oldestUnknown !== null) {
    const since = relative(status.oldestUnknown, now)
    print('', `oldest unknown: in doubt since ${since}; ${next('recover --dry-run')} says what comes next`)
  }
  print(...stuckKeyLines(status, next))
  print(...attentionLines(attentionOf(status, targetNames(config), null), status, next))
}

/** Where requests of several priorities wait, how long each of them does: a low one that starves is seen by it. */
function oldestLines({ oldestReady, targets }: StoreStatus, now: number): string[] {
  const oldestOfEach = Object.entries(targets).flatMap(([name, { oldestReady: all }]) => {
    // The highest, and the lowest, which are the ones that starve.
    const shown = all.length <= SHOWN_PRIORITIES ? all : [...all.slice(0, 1), ...all.slice(1 - SHOWN_PRIORITIES)]
    return all.length < 2 ? [] : shown.map(({ priority, since }) => [name, priority, relative(since, now)])
  })
  const oldest = `oldest ready: due ${relative(oldestReady, now)}`
  return oldestOfEach.length === 0
    ? [oldest]
    : [oldest, '', table(['target', 'priority', 'oldest ready'], oldestOfEach)]
}

/** Whose requests wait, where groups take turns. */
function groupLines({ targets }: StoreStatus, now: number): string[] {
  const rows = Object.entries(targets).flatMap(
    ([
      name,
      {
        groups: { ready, longest, headsOnly, oldest },
      },
    ]) => {
      const shown = longest.map(({ group, ready: rows }) => `${shorten(group, 40)} ${rows}`)
      const counted = headsOnly ? ' (of each ordering key the first alone)' : ''
      const longestWait =
        oldest === null ? null : `${shorten(oldest.group ?? 'without a group', 40)}, due ${relative(oldest.since, now)}`
      return ready === 0 ? [] : [[name, ready, `${shown.join(', ')}${counted}`, longestWait]]
    },
  )
  return rows.length === 0 ? [] : ['', table(['target', 'groups', 'most ready', 'waits longest'], rows)]
}

const RESTORED = {
  behind: 'it was put back from a copy',
  other_store: 'it was put back from a copy',
  no_record: 'it was put back from a copy',
  failed_over: 'a standby was promoted, or it was put back from a backup',
} as const

/** Without a word of a person about it, nothing of this store is called. */
function originLines(origin: StoreOrigin, { next }: Context): string[] {
  if (origin.kind === 'own') return []
  const words = origin.kind === 'moved' ? 'recover --moved' : 'recover --restored --dry-run'
  const what = origin.kind === 'moved' ? `it was moved here from ${origin.from}` : RESTORED[origin.why]
  return ['', `nothing of this store is called, since ${what}: ${next(words)}`]
}

function remark(name: string, paused: boolean, config: Config): string | null {
  if (!isTargetOf(config, name)) return 'not in the config'
  return paused ? 'paused' : null
}
