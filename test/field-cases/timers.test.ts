// C19: no timer is trusted with a due time, and no due time is taken that is none.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DAY_MS, keyed, openField, openStage } from './stage.ts'

test('C19 timer overflow: a request due in 60 days wakes nobody', async () => {
  const warnings: string[] = []
  const note = ({ name }: Error) => void warnings.push(name)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const counts = { turns: 0, polls: 0 }
  const config = { store: join(tempDir(), 'jobs.db'), targets: { job: keyed('http://127.0.0.1:9/jobs') } }
  const once = await openField(config, undefined, { store: counting(counts) })
  await once.enqueue({ target: 'job', payload: 1, runAt: Date.now() + 60 * DAY_MS })
  once.startWorker()
  await waitFor(() => counts.polls > 40, { what: 'the worker to be idle for long' })
  expect(counts.turns).toBe(1)
  expect(warnings).not.toContain('TimeoutOverflowWarning')
  expect(await once.list()).toMatchObject([{ state: 'scheduled' }])
})

test('C19 timer overflow: a request due in 60 days is called when they are over', async () => {
  const { api, clock, open } = await openStage('keyed', keyed)
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1, runAt: clock.wallNow() + 60 * DAY_MS })
  clock.advance(60 * DAY_MS - 1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(0)
  clock.advance(1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.effects).toHaveLength(1)
})

test.each([Number.POSITIVE_INFINITY, Number.NaN])(
  'C19 timer overflow: %f is no time to be due at, and is refused',
  async (runAt) => {
    const { open } = await openStage('keyed', keyed)
    const once = await open()
    const enqueued = once.enqueue({ target: 'job', payload: 1, runAt })
    await expect(enqueued).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining('runAt') })
    expect(await once.list()).toEqual([])
  },
)

function counting(counts: { turns: number; polls: number }): (store: Store) => Store {
  return (store) => ({
    ...store,
    turn: (input) => {
      counts.turns++
      return store.turn(input)
    },
    watchChanges: (targets) => {
      const changed = store.watchChanges(targets)
      return (now) => {
        counts.polls++
        return changed(now)
      }
    },
  })
}
