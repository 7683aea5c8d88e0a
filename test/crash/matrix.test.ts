// Each named point x each kind of API x each moment of the restart, with a SIGKILL of a process of its own in every cell.
// All of them where ONCEISH_TEST_FULL=1 is set, else the restart after the lease, and of each point every second kind, in turn.
import { expect, test } from 'vitest'
import { IS_POSTGRES } from '../support/engine.ts'
import { countProof } from '../support/proof.ts'
import { tempDir } from '../support/temp-dir.ts'
import { backupOf, type Ending, kill, openCell, prepare, restart } from './cell.ts'
import {
  endOf,
  filesAt,
  firstTurnOf,
  foundAs,
  hasPoint,
  leftAt,
  POINTS,
  type Point,
  RESTARTS,
  type Restart,
} from './expected.ts'
import { filesOf } from './files.ts'
import { KINDS, type Kind } from './kinds.ts'

const isFull = process.env['ONCEISH_TEST_FULL'] === '1'
const CHOSEN = isFull ? RESTARTS : (['after the lease'] as const)
/** Of the engine that is a file: it is brought up from an older one, copied and put back. */
const OF_FILES = /^(?:migrate|backup|restore):/
const REACHED = IS_POSTGRES ? POINTS.filter((point) => !OF_FILES.test(point)) : POINTS
const CASES = CHOSEN.flatMap((when) => REACHED.map((point) => [point, when] as const))

test.each(CASES)('killed at %s, started again %s', async (point, when) => {
  const folder = tempDir()
  const kinds = kindsAt(point)
  const cells = await Promise.all(kinds.map((kind) => openCell(kind, point, folder)))
  await prepare(cells, point)
  expect(await Promise.all(cells.map(kill))).toEqual(kinds.map(() => 'SIGKILL'))
  countProof('kills', kinds.length)
  countProof('cells', kinds.length)
  if (!IS_POSTGRES)
    expect(cells.map((cell) => filesOf(cell.store, backupOf(cell)))).toEqual(kinds.map(() => filesAt(point)))
  const endings = await Promise.all(cells.map((cell) => restart(cell, when)))
  expect(byKind(kinds, endings)).toEqual(
    byKind(
      kinds,
      kinds.map((kind) => expected(point, kind, when)),
    ),
  )
})

function kindsAt(point: Point): readonly Kind[] {
  const kinds = KINDS.filter((kind) => hasPoint(kind, point))
  return isFull || kinds.length < 2 ? kinds : kinds.filter((_, nth) => nth % 2 === POINTS.indexOf(point) % 2)
}

function expected(point: Point, kind: Kind, when: Restart): Ending {
  const left = leftAt(point, kind)
  const end = endOf(left, kind, when)
  return { ...end, found: foundAs(left), firstTurn: firstTurnOf(left, end, when), wrong: [] }
}

function byKind(kinds: readonly Kind[], endings: readonly Ending[]): Record<string, Ending | undefined> {
  return Object.fromEntries(kinds.map((kind, i) => [kind, endings[i]]))
}
