// Transactions of simulated processes on a real server, run so that a schedule is played again by its number. One process goes on at a
// time, until it has been answered and waits for its turn, or waits for the lock of another; and what goes on next the schedule draws.
// So transactions interleave statement by statement, as the seed has it, and how fast the server answers decides nothing. What runs at
// once inside the server is out of its reach: of two transactions one always stands still.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Chance, Weights } from './chance.ts'
import type { TurnTold } from './ground.ts'
import { hop, type Life, type Schedule } from './schedule.ts'

const STANDS = 'a transaction stands still for ever'
/** What a process waits for in the middle of a transaction. */
const TURN = 'goes on with its transaction'
const UNLOCKED = 'has the lock it waited for'
/** Of the commits of turns. */
const LOST_SHARE = 0.05
/** What becomes of one whose answer is lost: the server has it, or never heard of it, or has it and is silent when it is asked. */
const LOSSES: Weights<'done' | 'never done' | 'in doubt'> = [
  ['done', 4],
  ['never done', 4],
  ['in doubt', 1],
]
/** More, and which of two gets what a third has unlocked would be the server's draw. */
const AT_ONCE = 2
/** A statement that is not answered by then may wait for a lock. */
const LOOK_AFTER_MS = 5

/** One question to the store, with as many transactions as it takes. */
interface Ask {
  readonly life: Life
  readonly turn: TurnTold | null
  /** The server does not say what became of its commit. */
  isSilent: boolean
  /** Rejects with it. */
  readonly death: { readonly promise: Promise<never>; readonly come: () => void }
  /** Lets others go on. */
  yield: () => void
  isWaiting: boolean
  hasTransaction: boolean
  /** The statement before: the last of a transaction and its COMMIT are said in one breath. */
  before: Promise<unknown>
  /** Of the server's process that it speaks to; 0: of none yet. */
  pid: number
}

interface Blocked {
  readonly ask: Ask
  readonly pid: number
  isAnswered: boolean
  readonly goOn: () => void
}

export interface Traffic {
  /** For the next schedule. @param crowd draws what becomes of commits; null: transactions run one after the other. */
  begin(schedule: Schedule, crowd: Chance | null): void
  /** From here on no answer is lost. */
  calm(): void
  ask<T>(life: Life, work: () => Promise<T>, turn?: TurnTold): Promise<T>
  /** The world asks, and waits: meanwhile transactions go on, and nothing else. */
  drive<T>(work: () => Promise<T>, turn?: TurnTold): Promise<T>
  /** Transactions that are under way come to their end. */
  finish(): Promise<void>
  /** Waits until nothing goes on by itself. @returns false: nothing did. */
  rested(): Promise<boolean>
  close(): void
}

class Dead extends Error {}

/**
 * @param driver the world, which never dies; @param monitor a connection of its own; @param committed after each commit, before
 *   anybody hears of it
 */
export function createTraffic(driver: Life, monitor: pg.Client, committed: () => Promise<void>): Traffic {
  const asking = new AsyncLocalStorage<Ask>()
  const asks = new Set<Ask>()
  const queue: ((over: () => void) => void)[] = []
  const blocked = new Set<Blocked>()
  /** They wait until fewer transactions are under way. */
  const entering: { readonly ask: Ask; readonly goOn: () => void }[] = []
  let schedule: Schedule | null = null
  let crowd: Chance | null = null
  let isCalm = false
  let transactions = 0
  let hasEnded = false
  let pumping: Promise<void> | null = null
  /** Connections in a transaction that writes. */
  const writing = new WeakSet<pg.Client>()

  /** One after the other, in the order in which they came to be able to. */
  function goOn(ask: Ask): Promise<void> {
    const turn = new Promise<void>((resolve) => {
      queue.push((over) => {
        ask.isWaiting = false
        ask.yield = over
        resolve()
      })
    })
    pumping ??= pump()
    return turn
  }

  async function pump(): Promise<void> {
    for (;;) {
      await hop()
      await unlocked()
      const next = queue.shift()
      if (next === undefined) break
      await new Promise<void>(next)
    }
    pumping = null
  }

  /** After the end of a transaction: whoever waited for it is answered, or waits for another. */
  async function unlocked(): Promise<void> {
    if (!hasEnded) return
    hasEnded = false
    for (const one of blocked) {
      while (!one.isAnswered && !(await isBlocked(one.pid))) await delay(1)
      if (!one.isAnswered) continue
      blocked.delete(one)
      schedule?.later(one.ask.life, UNLOCKED, 0, one.goOn)
    }
  }

  /** By one that stands still until the schedule lets it go on; what the server does beside them ends by itself. */
  async function isBlocked(pid: number): Promise<boolean> {
    const others = [...asks].flatMap((ask) => (ask.hasTransaction && ask.pid !== pid ? [ask.pid] : []))
    const { rows } = await monitor.query('SELECT 1 WHERE pg_blocking_pids($1) && $2::integer[]', [pid, others])
    return rows.length > 0
  }

  async function wait<T>(ask: Ask, until: Promise<T>): Promise<T> {
    ask.isWaiting = true
    ask.yield()
    try {
      return await Promise.race([until, ask.death.promise])
    } finally {
      await goOn(ask)
    }
  }

  async function enter(ask: Ask): Promise<void> {
    // Whoever waited for a transaction of its own comes first.
    if (hasEnded) await wait(ask, Promise.resolve())
    if (transactions >= AT_ONCE) await wait(ask, new Promise<void>((goOn) => entering.push({ ask, goOn })))
    transactions++
    ask.hasTransaction = true
  }

  function leave(ask: Ask): void {
    if (!ask.hasTransaction) return
    ask.hasTransaction = false
    transactions--
    hasEnded = true
    const next = entering.find((one) => !one.ask.life.isDead)
    entering.splice(0, next === undefined ? entering.length : entering.indexOf(next) + 1)
    next?.goOn()
  }

  /** A statement of a transaction that writes. */
  async function tell(ask: Ask, client: pg.Client, text: string, send: () => Promise<unknown>): Promise<unknown> {
    if (text === 'ROLLBACK') {
      writing.delete(client)
      return send().finally(() => leave(ask))
    }
    if (ask.life.isDead) throw new Dead(`${ask.life.name} is dead`)
    if (!ask.hasTransaction) await enter(ask)
    else if (crowd !== null) await wait(ask, schedule?.step(ask.life, TURN) ?? Promise.resolve())
    if (text === 'COMMIT') {
      ask.turn?.atCommit()
      writing.delete(client)
      return commit(ask, client, send)
    }
    return answered(ask, client, send())
  }

  async function commit(ask: Ask, client: pg.Client, send: () => Promise<unknown>): Promise<unknown> {
    const mayBeLost = ask.turn !== null && ask.life !== driver && !isCalm
    const loss = mayBeLost && crowd?.is(LOST_SHARE) ? crowd.weigh(LOSSES) : null
    try {
      const answer = loss === 'never done' ? null : await send()
      if (loss === null) return answer
      schedule?.note(`${ask.life.name} loses the answer to its commit: ${loss}`)
      ask.isSilent = loss === 'in doubt'
      if (ask.isSilent) ask.turn?.isInDoubt()
      await cut(client)
      throw Object.assign(new Error('lost, as told'), { code: 'ECONNRESET' })
    } finally {
      await asking.exit(committed)
      leave(ask)
    }
  }

  /** The server has noticed. */
  async function cut(client: pg.Client): Promise<void> {
    const { processID, connection } = client as unknown as { processID: number; connection: { stream: Socket } }
    connection.stream.destroy()
    const isThere = async () =>
      (await monitor.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [processID])).rows.length > 0
    while (await isThere()) await delay(1)
  }

  async function answered(ask: Ask, client: pg.Client, answer: Promise<unknown>): Promise<unknown> {
    const pid = (client as unknown as { processID: number }).processID
    ask.pid = pid
    let isAnswered = false
    const done = answer.then(noop, noop).then(() => {
      isAnswered = true
    })
    while (!isAnswered) {
      await Promise.race([done, delay(LOOK_AFTER_MS)])
      // Where the other waits too, they wait for each other, and the server soon ends it.
      if (isAnswered || blocked.size > 0 || !(await isBlocked(pid))) continue
      await wait(
        ask,
        new Promise<void>((resolve) => {
          const one: Blocked = { ask, pid, isAnswered: false, goOn: resolve }
          blocked.add(one)
          void done.then(() => {
            one.isAnswered = true
          })
        }),
      )
    }
    if (ask.life.isDead) throw new Dead(`${ask.life.name} is dead`)
    return answer
  }

  const original = pg.Client.prototype.query as (...given: unknown[]) => unknown
  pg.Client.prototype.query = function query(this: pg.Client, ...given: unknown[]) {
    const ask = asking.getStore()
    const text = (given[0] as { text?: string } | undefined)?.text ?? ''
    const send = () => original.apply(this, given) as Promise<unknown>
    const hear = given.at(-1)
    if (ask?.isSilent && /^SELECT pg_xact_status/.test(text) && typeof hear === 'function')
      return hear(Object.assign(new Error('silent, as told'), { code: 'ECONNRESET' }))
    const isTold = ask !== undefined && typeof hear !== 'function' && !/^BEGIN/.test(text)
    if (isTold && writing.has(this)) return inOrder(ask, () => tell(ask, this, text, send))
    if (/^BEGIN ISOLATION LEVEL READ COMMITTED/.test(text)) writing.add(this)
    return send()
  } as never

  /** Whoever died in the middle of a transaction: it is rolled back, as soon as the server has heard of it. */
  function bury(): boolean {
    const standing = new Set([...blocked].map(({ ask }) => ask))
    const dead = [...asks].filter((ask) => ask.life.isDead && ask.isWaiting && !standing.has(ask))
    for (const { death } of dead) death.come()
    return dead.length > 0
  }

  /** With a transaction, and nothing else. */
  async function goOnWithin(): Promise<boolean> {
    return (await schedule?.advance([TURN, UNLOCKED])) === true
  }

  const traffic: Traffic = {
    begin: (next, drawn) => {
      schedule = next
      crowd = drawn
      isCalm = false
    },
    calm: () => {
      isCalm = true
    },
    ask: async (life, work, turn) => {
      const ask: Ask = {
        life,
        turn: turn ?? null,
        isSilent: false,
        death: createDeath(),
        yield: noop,
        isWaiting: false,
        hasTransaction: false,
        before: Promise.resolve(),
        pid: 0,
      }
      await goOn(ask)
      asks.add(ask)
      try {
        return await asking.run(ask, work)
      } finally {
        asks.delete(ask)
        leave(ask)
        ask.yield()
        // The dead hear nothing.
        if (life.isDead) await new Promise<never>(noop)
      }
    },
    drive: async (work, turn) => {
      let isOver = false
      const made = traffic.ask(driver, work, turn)
      const over = () => {
        isOver = true
      }
      made.then(over, over)
      for (;;) {
        await schedule?.settle()
        await hop()
        if (isOver) return made
        if (!(await goOnWithin())) throw new Error(STANDS)
      }
    },
    finish: async () => {
      await schedule?.settle()
      while (transactions > 0) if (!(await goOnWithin())) throw new Error(STANDS)
    },
    rested: async () => {
      if (bury()) await hop()
      if (pumping === null) return false
      await pumping
      return true
    },
    close: () => {
      pg.Client.prototype.query = original as never
    },
  }
  return traffic
}

/** Whatever became of the one before: the server has heard both. */
function inOrder(ask: Ask, tell: () => Promise<unknown>): Promise<unknown> {
  const told = ask.before.then(tell)
  ask.before = told.catch(noop)
  return told
}

function noop(): void {}

function createDeath(): Ask['death'] {
  let come = noop
  const promise = new Promise<never>((_, reject) => {
    come = () => reject(new Dead('it was killed'))
  })
  promise.catch(noop)
  return { promise, come }
}
