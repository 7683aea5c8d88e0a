// The figures as a table for people and as JSON for programs.
import Table from 'cli-table3'
import type { Machine } from './machine.ts'
import { median } from './rounds.ts'
import type { Aim, Figure, Size } from './scenario.ts'

export interface Measured extends Figure {
  readonly scenario: string
}

export interface Report {
  readonly at: string
  readonly size: Size
  readonly rounds: number
  readonly machine: Machine
  readonly figures: readonly Measured[]
}

export function toTable({ figures }: Report): string {
  const table = new Table({
    head: ['scenario', 'figure', 'median', 'from .. to', 'unit', 'aim', ''],
    style: { head: [], border: [], compact: true },
  })
  for (const { scenario, name, values, unit, aim } of figures) {
    const middle = median(values)
    const spread = `${short(Math.min(...values))} .. ${short(Math.max(...values))}`
    table.push([scenario, name, short(middle), spread, unit, aimText(aim), verdict(middle, aim)])
  }
  return table.toString()
}

export function toJson({ figures, ...report }: Report): string {
  const told = figures.map((figure) => ({
    ...figure,
    median: median(figure.values),
    reached: figure.aim === undefined ? null : isReached(median(figure.values), figure.aim),
  }))
  return `${JSON.stringify({ ...report, figures: told }, null, 2)}\n`
}

export function machineLine({ cpu, cores, memoryGiB, os, node, packages, fdatasyncMs }: Machine): string {
  const versions = Object.entries(packages).map(([name, version]) => `${name} ${version}`)
  return [`${cores} x ${cpu}`, `${memoryGiB} GiB`, os, `Node ${node}`, ...versions, `fdatasync ${fdatasyncMs} ms`].join(
    ', ',
  )
}

function isReached(value: number, aim: Aim): boolean {
  return 'atLeast' in aim ? value >= aim.atLeast : value <= aim.atMost
}

function aimText(aim: Aim | undefined): string {
  if (aim === undefined) return ''
  return 'atLeast' in aim ? `at least ${aim.atLeast}` : `at most ${aim.atMost}`
}

function verdict(value: number, aim: Aim | undefined): string {
  if (aim === undefined) return ''
  return isReached(value, aim) ? 'reached' : 'missed'
}

/** Three digits that count. */
function short(value: number): string {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en')
  return String(Number(value.toPrecision(3)))
}
