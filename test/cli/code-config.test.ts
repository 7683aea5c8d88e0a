// A config that is a program: targets in code beside described ones, on the command line.
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { linesOf, NOWHERE, workspace } from '../support/run-cli.ts'

const LIBRARY = fileURLToPath(new URL('../../dist/index.js', import.meta.url))

const CONFIG = `
import { defineTarget, RejectedError } from ${JSON.stringify(LIBRARY)}

const schema = { '~standard': { version: 1 as const, vendor: 'test', validate: (value: unknown) => {
  const n = (value as { n?: unknown }).n
  return typeof n === 'number' ? { value: { n } } : { issues: [{ message: 'expected a number', path: ['n'] }] }
} } }

export default {
  targets: {
    coded: defineTarget({
      name: 'coded',
      version: '7',
      payload: schema,
      policy: { timeoutMs: '5s', idempotency: { rememberedFor: '1h' }, retry: { maxAttempts: 2 } },
      invoke: ({ payload }) => {
        if (payload.n < 0) throw new RejectedError('negative')
        return { taskId: \`t\${payload.n}\` }
      },
    }),
    described: { submit: { url: '${NOWHERE}/', timeoutMs: 5000 }, taskId: 'none' },
  },
}
`

test('a target in code is shown, takes what its schema takes, and is worked', async () => {
  const { cli, write } = workspace(null)
  write('onceish.config.ts', CONFIG)
  const shown = linesOf((await cli(['targets', '--json'])).stdout)
  expect(shown).toMatchObject([
    { target: 'described', kind: 'opaque' },
    { target: 'coded', kind: 'keyed', method: 'code', url: null, version: '7', promise: 'exactly 1 within 1h' },
  ])
  write('requests.ndjson', '{"payload":{"n":1}}\n{"payload":{"n":-1}}\n{"payload":{"n":"two"}}\n')
  const args = ['enqueue', '--target', 'coded', '--file', 'requests.ndjson', '--on-error', 'skip']
  expect(await cli(args)).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('2 enqueued'),
    stderr: expect.stringMatching(/^line 3: .*payload\.n: expected a number \(PAYLOAD_INVALID\)/s),
  })
  const worked = await cli(['work', '--drain', '--targets', 'coded', '--json'])
  expect(worked.code).toBe(3)
  expect(JSON.parse(worked.stdout)).toMatchObject({ states: { submitted: 1, dead: 1 }, calls: 2 })
  await cli(['retry', '2'])
  const checks = linesOf((await cli(['doctor', '--json'])).stdout).flat() as { name: string; ok: string }[]
  expect(checks.find(({ name }) => name === 'unroutable')).toMatchObject({ ok: 'ok' })
})

test('a list of targets will do too', async () => {
  const { cli, write } = workspace(null)
  const list = CONFIG.replace('targets: {', 'targets: [').replace('coded: defineTarget', 'defineTarget')
  write('onceish.config.ts', list.replace(/ {4}described:[^\n]*\n {2}\},/, '  ],'))
  expect(linesOf((await cli(['targets', '--json'])).stdout)).toMatchObject([{ target: 'coded', version: '7' }])
})

test('a name that is not its own is a fault of the config', async () => {
  const { cli, write } = workspace(null)
  write('onceish.config.ts', CONFIG.replace('coded: defineTarget', 'other: defineTarget'))
  expect(await cli(['targets'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('targets.other: is a target named "coded"'),
  })
})
