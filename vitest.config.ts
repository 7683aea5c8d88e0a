import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 90_000,
    hookTimeout: 90_000,
    maxWorkers: 2,
    // What is built is run as it is: the simulation loads many patched copies of it.
    server: { deps: { external: [/\/dist\/.*\.js$/] } },
    reporters: ['default', './test/support/proof-reporter.ts'],
  },
})
