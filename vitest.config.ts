import { defineConfig } from 'vitest/config'

/** What holds on a SQLite file holds on PostgreSQL: the store's interface, and a worker on it. */
const CONFORMANCE = [
  'aging', 'breaker', 'checks', 'deadlines', 'enqueue', 'groups', 'kept-payloads', 'limits', 'many-targets', 'operator', 'ordering',
  'orphans', 'reprioritize', 'say-to-each', 'time-line', 'together', 'turn',
].map((name) => `test/store/${name}.test.ts`).concat('test/consumer/worker.test.ts', 'test/consumer/fair-share.test.ts', 'test/library/plain-words.test.ts', 'test/maintenance/doctor-of-work.test.ts') // biome-ignore format: one name after another reads best

/** Minutes of servers and processes that are killed: of `ONCEISH_TEST_FULL=1`, which every change passes before it lands. */
const LONG = [
  ...['commit-in-doubt', 'copy', 'cut-off', 'failed-over', 'refusals', 'retried', 'server-killed', 'skew'].map(
    (name) => `test/postgres/${name}.test.ts`,
  ),
  'test/crash/matrix.test.ts',
  'test/torture/torture.test.ts',
]
const isFull = process.env['ONCEISH_TEST_FULL'] === '1'
/** The package, installed with all that it depends on: a minute. */
const OF_THE_PACKAGE = 'test/package/newcomer.test.ts'
/** Two hosts and a link that is cut, where the machine permits network namespaces. */
const OF_HOSTS = 'test/postgres/link-cut.test.ts'
const hasHosts = process.env['ONCEISH_TEST_NETNS'] === '1'
if (isFull && !hasHosts)
  process.stderr.write(`${OF_HOSTS} is not run: ONCEISH_TEST_NETNS is not set, as .ci/run does where it may\n`)

const shared = {
  testTimeout: 90_000,
  hookTimeout: 90_000,
  maxWorkers: 2,
  // What is built is run as it is: the simulation loads many patched copies of it.
  server: { deps: { external: [/\/dist\/.*\.js$/] } },
}

export default defineConfig({
  test: {
    ...shared,
    reporters: ['default', './test/support/proof-reporter.ts'],
    projects: [
      {
        test: {
          ...shared,
          name: 'sqlite',
          include: ['test/**/*.test.ts'],
          exclude: ['test/postgres/**', ...(isFull ? [] : [OF_THE_PACKAGE])],
        },
      },
      {
        test: {
          ...shared,
          name: 'postgres',
          include: [...CONFORMANCE, 'test/postgres/**/*.test.ts', ...(isFull ? LONG : [])],
          exclude: [...(isFull ? [] : LONG), ...(hasHosts ? [] : [OF_HOSTS])],
          env: { ONCEISH_TEST_ENGINE: 'postgres' },
          globalSetup: ['test/support/postgres-setup.ts'],
        },
      },
    ],
  },
})
