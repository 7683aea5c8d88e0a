// Transactions of simulated processes on a real server, run so that a schedule is played again by its number. One process goes on at a
// time, until it has been answered and waits for its turn, or waits for the lock of another; and what goes on next the schedule draws.
// So transactions interleave statement by statement, as the seed has it, and how fast the server answers decides nothing. What runs at
// once inside the server is out of its reach: of two transactions one always stands still.
import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { hop, type Life, type Schedule } from './schedule.ts'

const STANDS = 'a transaction stands still for ever'
/** What a process waits for in the middle of a transaction. */
const TURN = 'goes on with its transaction'
const UNLOCKED = 'has the lock it waited for'
/** More, and which of two gets what a third has unlocked would be the server's draw. */
const AT_ONCE = 2
/** A statement that is not answered by then may wait for a lock. */
const LOOK_AFTER_MS = 5

/** One question to the store, with as many transactions as it takes. */
interface Ask {
  readonly life: Life
  /** Told right before each COMMIT. */
  readonly atCommit: () => void
  /** Rejects with it. */
  readonly death: { readonly promise: Promise<never>; readonly come: () => void }
  /** Lets others go on. */
  yield: () => void
  isWaiting: boolean
  hasTransaction: boolean
}

interface Blocked {
  readonly ask: Ask
  readonly pid: number
  isAnswered: boolean
  readonly goOn: () => void
}

export interface Traffic {
  /** For the next schedule. @param isInterleaved false: transactions run one after the other. */
  begin(schedule: Schedule, isInterleaved: boolean): void
  ask<T>(life: Life, work: () => Promise<T>, atCommit?: () => void): Promise<T>
  /** The world asks, and waits: meanwhile transactions go on, and nothing else. */
  drive<T>(life: Life, work: () => Promise<T>, atCommit?: () => void): Promise<T>
  /** Transactions that are under way come to their end. */
  finish(): Promise<void>
  /** Waits until nothing goes on by itself. @returns false: nothing did. */
  rested(): Promise<boolean>
  close(): void
}

class Dead extends Error {}

/**
 * @param monitor a connection of its own; @param committed after each commit, before anybody hears of it
 */
export function createTraffic(monitor: pg.Client, committed: () => Promise<void>): Traffic {
  const asking = new AsyncLocalStorage<Ask>()
  const asks = new Set<Ask>()
  const queue: ((over: () => void) => void)[] = []
  const blocked = new Set<Blocked>()
  /** They wait until fewer transactions are under way. */
  const entering: { readonly ask: Ask; readonly goOn: () => void }[] = []
  let schedule: Schedule | null = null
  let isInterleaved = false
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

  /** By one that stands still until the schedule lets it go on. */
  async function isBlocked(pid: number): Promise<boolean> {
    const { rows } = await monitor.query('SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0', [pid])
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
    else if (isInterleaved) await wait(ask, schedule?.step(ask.life, TURN) ?? Promise.resolve())
    if (text === 'COMMIT') {
      ask.atCommit()
      writing.delete(client)
      return send().finally(async () => {
        await asking.exit(committed)
        leave(ask)
      })
    }
    return answered(ask, client, send())
  }

  async function answered(ask: Ask, client: pg.Client, answer: Promise<unknown>): Promise<unknown> {
    const pid = (client as unknown as { processID: number }).processID
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
    const isTold = ask !== undefined && typeof given.at(-1) !== 'function' && !/^BEGIN/.test(text)
    if (isTold && writing.has(this)) return tell(ask, this, text, send)
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
    begin: (next, interleaved) => {
      schedule = next
      isInterleaved = interleaved
    },
    ask: async (life, work, atCommit = noop) => {
      const ask: Ask = { life, atCommit, death: createDeath(), yield: noop, isWaiting: false, hasTransaction: false }
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
    drive: async (life, work, atCommit) => {
      let isOver = false
      const made = traffic.ask(life, work, atCommit)
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

function noop(): void {}

function createDeath(): Ask['death'] {
  let come = noop
  const promise = new Promise<never>((_, reject) => {
    come = () => reject(new Dead('it was killed'))
  })
  promise.catch(noop)
  return { promise, come }
}
