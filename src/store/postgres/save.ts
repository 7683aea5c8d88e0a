// Writes what the rules have made of a slice: in one round trip, with what a commit is asked about by.
import { type OwnTransaction, TICKET_SQL, type Ticket, type Transaction } from './connection.ts'
import { lockId } from './locks.ts'
import type { Changes, Row } from './slice.ts'
import { TABLES } from './tables.ts'

export interface Saves {
  save(tx: Transaction, changes: Changes): Promise<void>
  /** Where nothing else is to be written: it goes out together with COMMIT where it can. */
  saveLast(tx: OwnTransaction, changes: Changes): Promise<void>
}

/** Ids of events are in the order of commits: whoever writes some holds it until the end. @param schema quoted. */
export function eventLockOf(schema: string): string {
  return lockId(schema, 'events')
}

/** @param s the schema, quoted. */
export function createSaves(s: string): Saves {
  const eventLock = eventLockOf(s)

  async function write(changes: Changes, send: (text: string, values: readonly unknown[]) => Promise<void>) {
    const kinds = kindsOf(changes)
    if (kinds.length === 0) return
    // One parameter for each kind: to quote JSON as an array's element costs more than to make it.
    const given = kinds.map((_, at) => `$${at + 4}::json`).join(', ')
    await send(`SELECT ${s}.save($1::text[], ARRAY[${given}], $2::integer[], $3::bigint), ${TICKET_SQL}`, [
      kinds.map(([kind]) => kind),
      kinds.map(([, rows]) => rows.length),
      eventLock,
      ...kinds.map(([, rows]) => JSON.stringify(rows)),
    ])
  }

  const save = (tx: Transaction, changes: Changes) =>
    write(changes, async (text, values) => {
      const [ticket] = await tx.query<Ticket>(text, values)
      tx.ticket = ticket ?? null
    })
  return {
    save,
    saveLast: (tx, changes) => {
      const isKnown = tx.ticket !== null && tx.ticket.xid !== null
      return isKnown ? write(changes, async (text, values) => tx.finishWith(text, values)) : save(tx, changes)
    },
  }
}

/** As `onceish.save` takes them: what leaves before what comes, table by table, the rotation by what became of the queue, events last. */
function kindsOf(changes: Changes): (readonly [kind: string, rows: readonly Row[]])[] {
  const kinds = TABLES.filter(({ name }) => name !== 'events').flatMap(({ name }) => {
    if (name === 'group_rotation') return rotationKinds(changes)
    const { deleted = [], updated = [], inserted = [] } = changes[name] ?? {}
    return [
      [`${name}.deleted`, deleted] as const,
      [`${name}.updated`, updated] as const,
      [`${name}.inserted`, inserted] as const,
    ]
  })
  return [...kinds, ['events.inserted', changes['events']?.inserted ?? []] as const].filter(
    ([, rows]) => rows.length > 0,
  )
}

function rotationKinds({ group_rotation: rotation, ready }: Changes): (readonly [string, readonly Row[]])[] {
  const lanes = new Map<string, Row>()
  for (const { target, group_key } of ready?.deleted ?? [])
    if (rotation !== undefined || group_key !== '')
      lanes.set(`${target}\0${group_key}`, { target: target ?? null, group_key: group_key ?? null })
  // Those of which nothing is left in the slice gave theirs by their places.
  const inOrder = (rows: readonly Row[]) => rows.toSorted((a, b) => Number(a['place']) - Number(b['place']))
  const given = rotation === undefined ? [] : [...inOrder(rotation.deleted), ...inOrder(rotation.updated)]
  return [
    ['group_rotation.inserted', rotation?.inserted ?? []],
    ['group_rotation.left', [...lanes.values()]],
    ['group_rotation.given', given],
  ]
}
