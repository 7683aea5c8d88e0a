// The connections of one target: a pair of agents of its own, so that ending one never turns another target's calls
// unknown. Submits and side calls share no socket: a stale one must not make doubt.
import { Agent, buildConnector, type Dispatcher, Pool } from 'undici'

/** Wraps the dialling; for tests and for networks that must be fenced in. */
export type ConnectHook = (connect: buildConnector.connector) => buildConnector.connector

export interface Agents {
  readonly submit: Dispatcher
  readonly lookup: Dispatcher
  close(): Promise<void>
}

const CLOSE_WITHIN_MS = 2000

/**
 * Connections are not bounded here but by the worker's concurrency: a bound would let calls queue behind dials that
 * were given up. `fresh`: a connection for each submit, closed after it.
 */
export function openAgents(options: {
  readonly connection: 'reuse' | 'fresh'
  readonly connectMs: number
  readonly connectHook?: ConnectHook | undefined
}): Agents {
  const submit = openAgent(options, options.connection === 'fresh' ? 0 : 1)
  const lookup = openAgent(options, 1)
  let closing: Promise<unknown> | null = null
  return {
    submit: submit.agent,
    lookup: lookup.agent,
    close: async () => {
      closing ??= Promise.all([closeWithin(submit), closeWithin(lookup)])
      await closing
    },
  }
}

interface OpenAgent {
  readonly agent: Agent
  readonly pools: Set<Pool>
}

function openAgent(
  options: { connectMs: number; connectHook?: ConnectHook | undefined },
  pipelining: 0 | 1,
): OpenAgent {
  const connect = buildConnector({ timeout: options.connectMs, allowH2: false })
  const pools = new Set<Pool>()
  const agent = new Agent({
    pipelining,
    // Over HTTP/2 half a body can look whole, and refused streams are sent again.
    allowH2: false,
    connect: options.connectHook?.(connect) ?? connect,
    // Short, since a server that closes first makes doubt.
    keepAliveTimeout: 4000,
    keepAliveMaxTimeout: 30_000,
    factory: (origin, poolOptions) => {
      for (const pool of pools) if (pool.destroyed) pools.delete(pool)
      const pool = new Pool(origin, poolOptions)
      pools.add(pool)
      return pool
    },
  })
  return { agent, pools }
}

/** Lets running calls end for a while, then ends them. A closed agent forgets its pools, so these are ended one by one. */
async function closeWithin({ agent, pools }: OpenAgent): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, CLOSE_WITHIN_MS)
  })
  await Promise.race([agent.close(), late])
  clearTimeout(timer)
  await Promise.all([...pools].filter((pool) => !pool.destroyed).map((pool) => pool.destroy()))
}
