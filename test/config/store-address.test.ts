// Where the store is, as a config says it: a path, a URL, or a name of the environment that holds one.
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { parseConfig } from '../../src/config/load-config.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

const storeOf = (store: string) => parseConfig({ store }, { path: null, baseDir: '/base' }).store

test('a name of the environment stands for what it holds', () => {
  vi.stubEnv('JOBS_STORE', 'postgres://me:secret@db/shop')
  expect(storeOf('{% $env.JOBS_STORE %}')).toBe('postgres://me:secret@db/shop')
  vi.stubEnv('JOBS_STORE', 'jobs.db')
  expect(storeOf('{% $env.JOBS_STORE %}')).toBe(join('/base', 'jobs.db'))
})

test.each([
  ['{% $env.NOT_THERE_AT_ALL %}', 'ENV_MISSING', /NOT_THERE_AT_ALL \(needed by store\)/],
  ["{% 'postgres://' & $env.HOST %}", 'CONFIG_INVALID', /alone/],
  ['mysql://me:secret@db/shop', 'CONFIG_INVALID', /no engine for mysql:\/\/: a file path, or a postgres/],
])('%s is no file name', (store, code, said) => {
  expect(() => storeOf(store)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(said) }))
  expect(() => storeOf(store)).not.toThrow(/secret/)
})
