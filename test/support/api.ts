// Starts the sample API as a process of its own, and describes its four targets for a test.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { FaultMode } from '../../fixtures/api/faults.ts'
import type { Oracle, Summary } from '../../fixtures/api/ledger.ts'
import type { SettingsPatch } from '../../fixtures/api/settings.ts'
import { waitFor } from './wait-for.ts'

const MAIN = fileURLToPath(new URL('../../fixtures/api/main.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface ApiOptions {
  readonly faults?: FaultMode
  /** Gets one line for each effect, written before the answer. */
  readonly journal?: string
  /** Sent to `control` before the API is handed over. */
  readonly settings?: SettingsPatch
}

export interface Api {
  readonly origin: string
  readonly pid: number
  oracle(): Promise<Oracle>
  summary(): Promise<Summary>
  control(patch: SettingsPatch): Promise<void>
  /** Ends the process; calling it again does nothing. */
  stop(): Promise<void>
}

type ApiProcess = ChildProcessByStdio<Writable, Readable, null>

export async function startApi(options: ApiOptions = {}): Promise<Api> {
  const child = spawn(process.execPath, ['--import', 'jiti/register', MAIN, ...argumentsOf(options)], {
    cwd: ROOT,
    // Its stdin is our pipe: it ends with us, whatever ends us.
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const origin = await originOf(child)
  const api = apiOf(child, origin)
  try {
    if (options.settings !== undefined) await api.control(options.settings)
  } catch (error) {
    await api.stop()
    throw error
  }
  return api
}

function argumentsOf(options: ApiOptions): string[] {
  const journal = options.journal === undefined ? [] : ['--journal', options.journal]
  return ['--port', '0', '--faults', options.faults ?? 'none', ...journal]
}

async function originOf(child: ApiProcess): Promise<string> {
  for await (const line of createInterface(child.stdout)) return (JSON.parse(line) as { listening: string }).listening
  throw new Error('the sample API ended before it listened; its stderr says why')
}

function apiOf(child: ApiProcess, origin: string): Api {
  return {
    origin,
    pid: child.pid ?? 0,
    oracle: () => getJson<Oracle>(`${origin}/_oracle`),
    summary: () => getJson<Summary>(`${origin}/_oracle/summary`),
    control: (patch) => control(origin, patch),
    stop: () => stop(child),
  }
}

async function getJson<T>(url: string): Promise<T> {
  return (await (await fetch(url)).json()) as T
}

async function control(origin: string, patch: SettingsPatch): Promise<void> {
  const response = await fetch(`${origin}/_control`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(patch),
  })
  if (!response.ok) throw new Error(`the sample API refused ${JSON.stringify(patch)}: ${await response.text()}`)
}

async function stop(child: ApiProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}

/** @returns what it has counted, once no call runs there any more. */
export function oracleAtRest(api: Api, timeoutMs?: number): Promise<Oracle> {
  const ask = async () => {
    const oracle = await api.oracle()
    return oracle.running === 0 && oracle
  }
  return waitFor(ask, { what: 'the API to be at rest', ...(timeoutMs && { timeoutMs }) })
}

export type RawConfig = { readonly [name: string]: unknown }

/**
 * @param overrides merged into the config, object by object; `undefined` takes a field out.
 * @returns the four targets with times short enough for tests and long enough for the loader's safety rules.
 */
export function configFor(origin: string, overrides: RawConfig = {}): RawConfig {
  return merge(
    {
      worker: { concurrency: 16, leaseMs: 1500, graceMs: 1000 },
      targets: {
        executions: executions(origin),
        renders: renders(origin),
        parcels: parcels(origin),
        messages: messages(origin),
      },
    },
    overrides,
  )
}

const TIMEOUT_MS = 900
const ARRIVAL_MS = 50
const KEY_TIMES = { arrivalMs: ARRIVAL_MS, margin: TIMEOUT_MS + ARRIVAL_MS }
const RETRY = { maxAttempts: 5, initialMs: 50, maxMs: 400 }

function executions(origin: string): RawConfig {
  return {
    submit: { method: 'PUT', url: `${origin}/v1/executions/{% $key %}`, timeoutMs: TIMEOUT_MS },
    idempotency: { clientId: true, format: 'uuid', rememberedFor: '1h', ...KEY_TIMES },
    taskId: '{% $response.body.id %}',
    exists: { ours: '{% $response.body.name = $key %}' },
    outcomes: [{ when: "{% $response.status = 409 and $response.body.error.code = 'already_exists' %}", is: 'exists' }],
    recovery: ['replay', 'hold'],
    retry: RETRY,
  }
}

function renders(origin: string): RawConfig {
  return {
    submit: {
      method: 'POST',
      url: `${origin}/v1/renders`,
      headers: { authorization: 'Bearer test' },
      timeoutMs: TIMEOUT_MS,
    },
    idempotency: {
      header: 'Idempotency-Key',
      format: 'uuid',
      rememberedFor: '1h',
      failedFirst: 'reexecuted',
      ...KEY_TIMES,
    },
    taskId: '{% $response.body.id %}',
    outcomes: [
      {
        when: "{% $response.status = 409 and $response.body.error.code = 'idempotency_key_in_use' %}",
        is: 'in_flight',
      },
      { when: "{% $response.status = 422 and $response.body.error.code = 'idempotency_mismatch' %}", is: 'mismatch' },
    ],
    recovery: ['replay', 'hold'],
    retry: RETRY,
  }
}

function parcels(origin: string): RawConfig {
  return {
    submit: {
      method: 'POST',
      url: `${origin}/v1/parcels`,
      body: "{% $merge([$payload, { 'reference': $key }]) %}",
      timeoutMs: TIMEOUT_MS,
    },
    // The reference is no idempotency key: nothing says that it is remembered, so it is never replayed.
    idempotency: { format: 'uuid' },
    taskId: '{% $response.body.id %}',
    lookup: {
      url: `${origin}/v1/parcels?reference={% $key %}`,
      timeoutMs: TIMEOUT_MS,
      taskId: '{% $response.body.data.id %}',
      complete: '{% $response.body.has_more = false %}',
      settleMs: 600,
      everyMs: 200,
      misses: 2,
      missMeans: 'absent',
      remembers: '1h',
    },
    cancel: { method: 'DELETE', url: `${origin}/v1/parcels/{% $taskId %}`, timeoutMs: TIMEOUT_MS },
    recovery: ['lookup', 'hold'],
    retry: RETRY,
  }
}

function messages(origin: string): RawConfig {
  return {
    submit: { method: 'POST', url: `${origin}/v1/messages`, timeoutMs: TIMEOUT_MS },
    taskId: '{% $response.body.sid %}',
    recovery: ['hold'],
    retry: RETRY,
  }
}

export function merge(base: RawConfig, overrides: RawConfig): RawConfig {
  const merged: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(overrides)) {
    const present = merged[name]
    if (value === undefined) delete merged[name]
    else merged[name] = isRecord(present) && isRecord(value) ? merge(present, value) : value
  }
  return merged
}

function isRecord(value: unknown): value is RawConfig {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
