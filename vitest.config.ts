import { defineConfig } from 'vitest/config'

/** Suites of the store's interface: what holds on a SQLite file holds on PostgreSQL. */
const CONFORMANCE = [
  'aging', 'breaker', 'checks', 'deadlines', 'enqueue', 'groups', 'kept-payloads', 'limits', 'many-targets', 'operator', 'ordering',
  'orphans', 'reprioritize', 'say-to-each', 'time-line', 'together', 'turn',
].map((name) => `test/store/${name}.test.ts`) // biome-ignore format: one name after another reads best

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
      { test: { ...shared, name: 'sqlite', include: ['test/**/*.test.ts'], exclude: ['test/postgres/**'] } },
      {
        test: {
          ...shared,
          name: 'postgres',
          include: [...CONFORMANCE, 'test/postgres/**/*.test.ts'],
          env: { ONCEISH_TEST_ENGINE: 'postgres' },
          globalSetup: ['test/support/postgres-setup.ts'],
        },
      },
    ],
  },
})
