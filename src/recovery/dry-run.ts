// What recovery would do with each row in doubt, and why: lookups are asked, nothing is written and nothing is called.
import type { Reconciliation } from '../core/reconciliation.ts'
import type { Store } from '../store/store.ts'
import type { Investigation } from '../store/turn.ts'

/** What recovery would do with one request in doubt. */
export interface DryRunLine {
  readonly requestId: number
  readonly target: string
  readonly state: string
  readonly attempt: number
  /** Epoch ms; null while its call may be running. */
  readonly unknownSince: number | null
  /** `adopt`, `replay`, `recall`, `hold`, `canceled`, `later`, or `wait` while a lease runs or nobody describes the target. */
  readonly would: string
  readonly why: string
  /** When it is looked at again, epoch ms; null where the step is taken now. */
  readonly nextAt: number | null
}

const PAGE = 500

type Look = (investigation: Investigation, asked: { readonly isDryRun: true }) => Promise<Reconciliation>

export async function* dryRun(
  store: Store,
  reconcile: Look,
  /** Of the present description of each target that the config names. */
  versions: ReadonlyMap<string, string>,
  now: () => number,
): AsyncGenerator<DryRunLine> {
  for (let afterId = 0; ; ) {
    const page = await store.inDoubt(afterId, PAGE)
    for (const investigation of page) {
      afterId = investigation.row.requestId
      const version = versions.get(investigation.row.target)
      yield version === undefined
        ? unroutable(investigation)
        : await explain(investigation, reconcile, { now: now(), version })
    }
    if (page.length < PAGE) return
  }
}

function unroutable({ row }: Investigation): DryRunLine {
  const { requestId, target, state, attempt, unknownSince } = row
  const why = 'the config names no such target'
  return { requestId, target, state, attempt, unknownSince, would: 'wait', why, nextAt: null }
}

async function explain(
  investigation: Investigation,
  reconcile: Look,
  present: { readonly now: number; readonly version: string },
): Promise<DryRunLine> {
  const { requestId, target, state, attempt, unknownSince, leaseUntil } = investigation.row
  const line = { requestId, target, state, attempt, unknownSince }
  if (state === 'invoking' && leaseUntil !== null && leaseUntil > present.now) {
    return { ...line, would: 'wait', why: 'its lease is running', nextAt: leaseUntil }
  }
  const { verdict } = await reconcile(investigation, { isDryRun: true })
  const why = verdict.kind === 'adopt' ? `task ${verdict.taskId}` : verdict.reason
  const isOlder = investigation.row.targetVersion !== present.version
  const isMissing = verdict.kind === 'hold' && verdict.reason === 'description_missing'
  const told = isMissing
    ? `${why}: called by version ${investigation.row.targetVersion}, here is ${present.version}; recover with that version first`
    : isOlder
      ? `${why} (by the description of its call: the config has changed since)`
      : why
  return { ...line, would: verdict.kind, why: told, nextAt: verdict.kind === 'later' ? verdict.at : null }
}
