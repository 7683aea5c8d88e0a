// `recover --restored` and `--moved`: a person's word about a store that did not make its calls itself.
import type { RestoredReport } from '../recovery/restored.ts'
import { usage } from './arguments.ts'
import type { Context } from './context.ts'
import { instant, plural, print, printJson, table } from './print.ts'

export interface StoreWord {
  readonly restored?: true
  readonly moved?: true
  readonly force?: true
}

/** @throws OnceishError USAGE for words that do not go together */
export function checkStoreWord({ restored, moved, force, dryRun }: StoreWord & { readonly dryRun?: true }): void {
  if (restored && moved) throw usage('--restored and --moved are two different things to have happened: say one')
  if (force && !restored) throw usage('--force goes with --restored only')
  if (moved && dryRun) throw usage('--moved puts nothing in doubt, so there is nothing to try: leave --dry-run out')
}

/** Before recovery begins. @throws OnceishError STORE_NOT_RESTORED */
export async function sayStoreWord({ once, isJson }: Context, { restored, moved, force }: StoreWord): Promise<void> {
  if (moved) await once.declareMoved()
  if (!restored) return
  const report = await once.declareRestored({ force: force ?? false })
  if (!isJson) print(...restoredLines(report, 'put in doubt'), '')
}

/** Changes nothing. */
export async function tryStoreWord({ once, isJson }: Context, { force }: StoreWord): Promise<void> {
  const report = await once.declareRestored({ force: force ?? false, dryRun: true })
  if (isJson) printJson(report)
  else print(...restoredLines(report, 'would be put in doubt, then looked into'))
}

function restoredLines({ origin, doubted, kept, targets }: RestoredReport, what: string): string[] {
  const since = origin.kind === 'restored' ? ` called since ${instant(origin.knownUntil)}` : ' called without record'
  const lines = [`${plural(doubted, 'request')} that may have been${since}: ${what}`]
  if (kept > 0)
    lines.push(`${plural(kept, 'request')} scheduled for later than any call that was made: left as they are`)
  return doubted === 0 ? lines : [...lines, table(['target', 'requests'], Object.entries(targets))]
}
