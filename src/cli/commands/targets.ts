import type { Command } from 'commander'
import type { CareDefinition } from '../../config/target-definition.ts'
import { hasCode } from '../../core/errors.ts'
import { credentialsCure, isOfCredentials } from '../../core/reasons.ts'
import type { StoreStatus } from '../../store/views.ts'
import { example } from '../arguments.ts'
import { readSettings, type Settings, withStore } from '../context.ts'
import { duration, fields, print, printJson, relative } from '../print.ts'
import { kindOf, promiseOf } from '../promise.ts'
import { breakerWords, lasting, waitWords } from '../waits.ts'

export function addTargets(program: Command): void {
  program
    .command('targets')
    .description(
      'the targets of the config: what recovery does with each, and what is promised under which assumptions',
    )
    .addHelpText('after', example('onceish targets'))
    .action(async (_options: object, command: Command) => {
      const settings = await readSettings(command)
      const status = await statusOf(settings)
      const targets = [
        ...Object.values(settings.config.targets).map((target) =>
          describe(target.name, { ...target.submit, version: null }, target, status),
        ),
        ...Object.values(settings.config.codeTargets).map(({ name, version, care }) =>
          describe(name, { method: 'code', url: null, version }, care, status),
        ),
      ]
      if (settings.isJson) for (const target of targets) printJson(target)
      else if (targets.length === 0) print('the config names no target')
      else print(targets.map(block).join('\n\n'))
    })
}

/** Null before the first request: the config can be read without a database. */
async function statusOf(settings: Settings): Promise<StoreStatus | null> {
  let status: StoreStatus | null = null
  try {
    await withStore(settings, { create: false }, async ({ once }) => {
      status = await once.status()
    })
  } catch (error) {
    if (!hasCode(error, 'STORE_NOT_FOUND')) throw error
  }
  return status
}

function describe(
  name: string,
  { method, url, version }: { readonly method: string; readonly url: string | null; readonly version: string | null },
  care: CareDefinition,
  status: StoreStatus | null,
) {
  const { idempotency, lookup, recovery, dedupe, limits } = care
  const {
    paused = false,
    pausedAt = null,
    pausedBy = null,
    pauseReason = null,
    waits = [],
    breaker = null,
  } = status?.targets[name] ?? {}
  return {
    target: name,
    kind: kindOf(care),
    method,
    url,
    version,
    recovery,
    rememberedForMs: idempotency?.rememberedForMs ?? null,
    marginMs: typeof idempotency?.rememberedForMs === 'number' ? idempotency.marginMs : null,
    settleMs: lookup?.settleMs ?? null,
    misses: lookup?.misses ?? null,
    missMeans: lookup?.missMeans ?? null,
    dedupe,
    expiresAfterMs: care.expiresAfterMs ?? null,
    agingMs: care.agingMs ?? null,
    limits: { ...limits, bucket: limits.bucket ?? null },
    promise: promiseOf(care),
    paused,
    pausedAt,
    pausedBy,
    pauseReason,
    waits: lasting(waits, Date.now()),
    breaker,
  }
}

type Described = ReturnType<typeof describe>

function block(target: Described): string {
  const facts = fields([
    ['kind', target.kind],
    ['call', `${target.method} ${target.url ?? `version ${target.version}`}`],
    ['recovery', target.recovery.join(' -> ')],
    ['window', windowOf(target)],
    ['lookup', lookupOf(target)],
    ...(target.expiresAfterMs === null
      ? []
      : [['expires', `${duration(target.expiresAfterMs)} after it is due`] as const]),
    ...(target.agingMs === null
      ? []
      : [['aging', `${duration(target.agingMs)} of waiting are worth one step of priority`] as const]),
    ['limits', limitsOf(target)],
    ['promise', target.promise],
    ['state', stateOf(target)],
  ])
  return `${target.target}\n${facts.replaceAll(/^/gm, '  ')}`
}

function windowOf({ rememberedForMs, marginMs }: Described): string | null {
  if (rememberedForMs === null) return null
  if (rememberedForMs === 'forever' || marginMs === null) return 'forever'
  return `${duration(rememberedForMs)}, less a margin of ${duration(marginMs)}`
}

function lookupOf({ settleMs, misses, missMeans }: Described): string | null {
  if (settleMs === null) return null
  const after = missMeans === 'absent' ? 'mean that it never arrived' : 'prove nothing'
  return `settled after ${duration(settleMs)}; then ${misses} misses ${after}`
}

function limitsOf({ limits: { concurrency, rate, bucket } }: Described): string | null {
  const said = [
    concurrency === null ? '' : `${concurrency} at once`,
    rate === null ? '' : `${rate.count} in ${duration(rate.perMs)}, ${rate.burst} in a burst`,
    bucket === null ? '' : `shares the bucket ${bucket}`,
  ].filter((words) => words !== '')
  return said.length === 0 ? null : said.join('; ')
}

function stateOf({ target, paused, pausedAt, pausedBy, pauseReason, waits, breaker }: Described): string {
  const now = Date.now()
  if (!paused && breaker !== null) return breakerWords(breaker, now)
  if (!paused) return waits.length === 0 ? 'in service' : waits.map((wait) => waitWords(wait, now)).join('; ')
  const cure = isOfCredentials(pauseReason) ? `; ${credentialsCure(`"onceish resume ${target}"`)}` : ''
  return `paused by ${pausedBy ?? 'nobody known'}, ${relative(pausedAt, now)}${pauseReason === null ? '' : `: ${pauseReason}`}${cure}`
}
