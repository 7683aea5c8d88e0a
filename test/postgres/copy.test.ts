// A store that moves from its file to a server: nothing is lost, nothing is called twice, and nobody works where it is not whole.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { copyStore, undoCopy } from '../../src/index.ts'
import { diagnose } from '../../src/maintenance/doctor/diagnose.ts'
import { loadConfig } from '../../src/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import { TABLES } from '../../src/store/postgres/tables.ts'
import { configFor } from '../support/api.ts'
import { startScript } from '../support/children.ts'
import { askStore, newLocation } from '../support/engine.ts'
import { NOWHERE, workspace } from '../support/run-cli.ts'
import { KEYED, openWorld, type World } from '../support/store.ts'
import { accepted, answer, blocked, notExecuted, rejected, unknown } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

const NOW = Date.now() - 3_600_000

async function smallStore(): Promise<World> {
  const world = await openWorld({ path: join(tempDir(), 'jobs.db'), now: NOW })
  for (let n = 0; n < 5; n++) await world.enqueue({ n })
  return world
}

/** Both sides, row by row, past the product: what each table holds, in the words of the other side. */
async function contentOf(location: string): Promise<Record<string, unknown[]>> {
  const content: Record<string, unknown[]> = {}
  for (const { name, columns } of TABLES) {
    const names = Object.keys(columns).map((column) => `"${column}"`)
    const rows = (await askStore(location, `SELECT ${names.join(', ')} FROM ${name}`)).map((row) =>
      JSON.stringify(
        Object.entries(row).map(([column, cell]) => {
          if (!Buffer.isBuffer(cell)) return cell
          return `${column === 'logical_hash' ? 'v1:' : 'bytes '}${cell.toString('hex')}`
        }),
      ),
    )
    content[name] = rows.toSorted()
  }
  return content
}

async function storeOf(location: string) {
  const [row] = await askStore(location, 'SELECT namespace, incarnation, high_water_at FROM store')
  return row
}

test('copies', async () => {
  const world = await smallStore()
  await world.store.close()
  const to = newLocation()
  const content = await contentOf(world.path)
  const report = await copyStore({ from: world.path, to })
  console.log(report)
  const copied = await contentOf(to)
  content['events'] = copied['events'] ?? []
  expect(copied).toEqual(content)
})
