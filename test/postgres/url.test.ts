// What the URL of a store says: what nobody knows there would lead to another store, or to none.
import { expect, test } from 'vitest'
import { readUrl } from '../../src/store/postgres/url.ts'

const at = (rest: string) => () => readUrl(`postgres://onceish:secret@${rest}`)

test.each([
  ['db/shop?shema=two', /a parameter that nobody knows, shema; did you mean "schema"\?/],
  ['db/shop?Schema=two', /Schema; did you mean "schema"/],
  ['db/shop?schema=two&ssl_mode=require', /ssl_mode; did you mean "sslmode"/],
  ['a,b/shop', /several servers.*one address/],
  ['a:5432,b:5433/shop', /several servers/],
  ['db/shop?schema=Two', /schema "Two" is no plain name/],
  ['db:x/shop', /cannot be read as a URL/],
])('%s is refused, and nothing secret is said', (rest, said) => {
  expect(at(rest)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringMatching(said) }))
  expect(at(rest)).not.toThrow(/secret/)
})

test('a session names its process, within what the server shows, unless the URL does', () => {
  const nameOf = (url: string) => new URL(url).searchParams.get('application_name')
  expect(nameOf(readUrl('postgres://db/shop', 'host-a').url)).toBe(`onceish host-a ${process.pid}`)
  const long = nameOf(readUrl('postgres://db/shop', 'h\u00f6st'.repeat(50)).url) ?? ''
  expect(long).toMatch(new RegExp(`^onceish h\\?st.* ${process.pid}$`))
  expect(Buffer.byteLength(long)).toBe(63)
  expect(nameOf(readUrl('postgres://db/shop?application_name=mine', 'host-a').url)).toBe('mine')
  expect(nameOf(readUrl('postgres://db/shop').url)).toBeNull()
})

test('what node-postgres or libpq knows stays, and the schema is not told to the server', () => {
  const { url, schema } = at(
    'db:5433/shop?sslmode=verify-full&schema=two&channel_binding=require&target_session_attrs=read-write',
  )()
  expect(schema).toBe('two')
  expect(url).toBe(
    'postgres://onceish:secret@db:5433/shop?sslmode=verify-full&channel_binding=require&target_session_attrs=read-write',
  )
  expect(readUrl('postgresql:///shop?host=/var/run/postgresql&user=me').schema).toBe('onceish')
})
