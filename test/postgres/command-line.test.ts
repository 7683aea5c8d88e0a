// What the command line says of a store on a server where that is not what it says of a file.
import { expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { newLocation } from '../support/engine.ts'
import { NOWHERE, workspace } from '../support/run-cli.ts'

test('backup names the tools of the server, and leaves nothing behind', async () => {
  const shop = workspace({ ...configFor(NOWHERE), store: newLocation() })
  await shop.cli(['migrate'])
  const { code, stderr } = await shop.cli(['backup', 'copy.db'])
  expect(code).toBe(1)
  expect(stderr).toMatch(/^error STORE_UNSUPPORTED: backup copies a SQLite file, .*pg_basebackup with archived WAL/)
  expect((await shop.cli(['backup', 'nowhere/copy.db'])).stderr).toMatch(/STORE_UNSUPPORTED/)
  expect((await shop.cli(['backup', '--help'])).stdout).toContain('pg_basebackup')
})

test('a worker makes no store, since one that is not where it was meant to be would be another', async () => {
  const shop = workspace({ ...configFor(NOWHERE), store: newLocation() })
  const refused = { code: 1, stderr: expect.stringMatching(/error STORE_NOT_FOUND: .*onceish migrate.*onceish copy/) }
  expect(await shop.cli(['work', '--drain'])).toMatchObject(refused)
  expect(await shop.cli(['status'])).toMatchObject(refused)
  expect(await shop.cli(['migrate'])).toMatchObject({ code: 0 })
  expect(await shop.cli(['work', '--drain'])).toMatchObject({ code: 0 })
})

test('a slip of the pen in the URL is refused, with --store too', async () => {
  const shop = workspace({ ...configFor(NOWHERE), store: newLocation() })
  const { code, stderr } = await shop.cli(['migrate', '--store', 'postgres://me:secret@127.0.0.1:9/x?shema=two'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/error CONFIG_INVALID: store: .*shema; did you mean "schema"/)
  expect(stderr).not.toContain('secret')
})

test('a command that is printed to be pasted holds no password', async () => {
  const shop = workspace({ ...configFor(NOWHERE) })
  const store = newLocation()
  await shop.cli(['migrate', '--store', store])
  const { code, stdout } = await shop.cli(['pause', 'renders', '--store', store])
  expect(code).toBe(0)
  expect(stdout).toMatch(/onceish resume renders --store 'postgres:\/\/postgres@127\.0\.0\.1:\d+\/postgres\?schema=/)
})

test('recover --restored, where nothing shows it, says the address without the password', async () => {
  const shop = workspace({ ...configFor(NOWHERE), store: newLocation() })
  await shop.cli(['migrate'])
  const { stderr } = await shop.cli(['recover', '--restored'])
  expect(stderr).toMatch(/error STORE_NOT_RESTORED: /)
  expect(stderr).not.toMatch(/postgres:\/\/[^/]*@/)
})
