// Gathers the facts and asks every check. Works where there is no database yet, or one that is damaged or locked.
import type { Config } from '../../config/config.ts'
import { readEnvironment } from '../../config/environment.ts'
import { readVersion } from '../../config/version.ts'
import { systemClock } from '../../core/clock.ts'
import { CHECKED_LATER, checkedOptions, type Fields, FLAG, FUNCTION } from '../../core/given.ts'
import { inspectStore } from '../../store/open-store.ts'
import type { Check, DatabaseView, DoctorFacts, WorkView } from './check.ts'
import {
  checkClock,
  checkDatabase,
  checkIntegrity,
  checkJournal,
  checkLog,
  checkOrigin,
  checkSize,
  checkSpills,
} from './database.ts'
import { checkDiskSpace, checkEnvironment, checkFileSystem, checkPermissions, checkVersions } from './machine.ts'
import { checkServer, checkServerClock, checkTables } from './server.ts'
import {
  checkClosingWindows,
  checkCodeVersions,
  checkHeld,
  checkLeases,
  checkPauses,
  checkRoutes,
  checkUnworked,
  checkWindows,
} from './work.ts'

const MACHINE_CHECKS = [
  checkVersions,
  checkEnvironment,
  checkFileSystem,
  checkDiskSpace,
  checkPermissions,
  checkDatabase,
]
const DATABASE_CHECKS = [checkOrigin, checkSpills, checkJournal, checkClock, checkLog, checkSize, checkIntegrity]
/** What a file's checks ask of the machine, a server's ask of the server. */
const SERVER_CHECKS = [checkVersions, checkEnvironment, checkServer, checkTables]
const SERVED_CHECKS = [checkOrigin, checkSpills, checkServerClock]
const WORK_CHECKS = [
  checkRoutes,
  checkPauses,
  checkHeld,
  checkLeases,
  checkUnworked,
  checkCodeVersions,
  checkClosingWindows,
  checkWindows,
]

/** What is looked into. */
export interface DiagnoseOptions {
  readonly config: Config
  /** Looks at every page of the database, however large it is; default false. */
  readonly isFull?: boolean
  /** How a command is written for people; default `onceish ...`. */
  readonly next?: (words: string) => string
}

const FIELDS: Fields<DiagnoseOptions> = { config: CHECKED_LATER, isFull: FLAG, next: FUNCTION }

/** What is wrong with a store is told, not thrown. */
export async function diagnose(options: DiagnoseOptions): Promise<readonly Check[]> {
  const { config, isFull = false } = checkedOptions('options of diagnose', options, FIELDS)
  const now = systemClock.wallNow()
  return checksOf({
    config,
    env: readEnvironment(),
    now,
    versions: { onceish: readVersion(), node: process.version },
    inspection: await inspectStore(config.store, { now, isFull, stateFolder: config.worker.stateFolder }),
    next: options.next ?? ((words) => `onceish ${words}`),
  })
}

export function checksOf(facts: DoctorFacts): readonly Check[] {
  const { database, server } = facts.inspection
  const isFile = server === undefined
  const checks = (isFile ? MACHINE_CHECKS : SERVER_CHECKS).map((check) => check(facts))
  if (database.kind !== 'read') return checks
  const view: DatabaseView = { ...facts, database }
  checks.push(...(isFile ? DATABASE_CHECKS : SERVED_CHECKS).map((check) => check(view)))
  if (database.work === null) return checks
  const workView: WorkView = { ...view, work: database.work }
  return [...checks, ...WORK_CHECKS.map((check) => check(workView))]
}
