// Checks of what onceish stands on: versions, the environment, the folder and its file system.
import { neededEnv } from '../../config/environment.ts'
import { type Check, type DoctorFacts, fail, formatBytes, ok, warn } from './check.ts'

export function checkVersions({ versions, inspection, next }: DoctorFacts): Check {
  const { database, engine } = inspection
  const base = `onceish ${versions.onceish}, Node ${versions.node}, ${engine}`
  if (database.kind !== 'read') return ok('versions', base)
  const { schemaVersion, knownSchemaVersion } = database
  const found = `${base}, schema ${schemaVersion}`
  if (schemaVersion > knownSchemaVersion) {
    return fail('versions', `${found}; this onceish knows ${knownSchemaVersion}`, 'install the newer onceish')
  }
  if (schemaVersion === knownSchemaVersion) return ok('versions', found)
  return warn(
    'versions',
    `${found}; this onceish writes ${knownSchemaVersion}`,
    `stop older workers, then ${next('migrate')}`,
  )
}

export function checkEnvironment({ config, env }: DoctorFacts): Check {
  const needed = neededEnv(config)
  const missing = needed.filter((name) => !env[name])
  if (missing.length === 0) return ok('environment', `${needed.length} names needed, all set`)
  return warn(
    'environment',
    `not set here: ${missing.join(', ')}`,
    'set them where the workers run; "work" refuses to start without',
  )
}

const KNOWN_GOOD: Readonly<Record<number, string>> = {
  61267: 'ext4',
  1481003842: 'xfs',
  2435016766: 'btrfs',
  801189825: 'zfs',
  4076150800: 'f2fs',
  3393526350: 'bcachefs',
}

const DOUBTFUL: Readonly<Record<number, readonly [name: string, why: string]>> = {
  26985: ['NFS', 'its locks cannot hold a WAL database that two machines open'],
  20859: ['SMB', 'its locks cannot hold a WAL database that two machines open'],
  4283649346: ['CIFS', 'its locks cannot hold a WAL database that two machines open'],
  4266872130: ['SMB2', 'its locks cannot hold a WAL database that two machines open'],
  1702057286: ['FUSE', 'whether it keeps what fsync promises depends on what is behind it'],
  16914839: ['9p', 'shared memory, which WAL needs, does not work there for two machines'],
  2035054128: ['overlay', 'a container takes its upper layer with it'],
  16914836: ['tmpfs', 'it is memory: a power cut forgets every call'],
  2240043254: ['ramfs', 'it is memory: a power cut forgets every call'],
}

export function checkFileSystem({ inspection: { folder } }: DoctorFacts): Check {
  const name = 'file_system'
  if (folder === null)
    return fail(name, 'the folder is not there, or not to be looked into', 'make it, or mend "store" in the config')
  const { fileSystemType: type, path } = folder
  const doubtful = DOUBTFUL[type]
  const advice = 'put the store on a local disk (a volume, in a container)'
  if (doubtful !== undefined) return warn(name, `${path} is on ${doubtful[0]}: ${doubtful[1]}`, advice)
  const good = KNOWN_GOOD[type]
  return ok(name, good === undefined ? `a file system of type 0x${type.toString(16)}, not known here` : good)
}

const LEAST_FREE_BYTES = 64 * 1_048_576
const SCARCE_FREE_BYTES = 512 * 1_048_576

export function checkDiskSpace({ inspection: { folder }, next }: DoctorFacts): Check {
  const name = 'disk_space'
  if (folder === null) return fail(name, 'unknown: the folder is not there', 'make it, or mend "store" in the config')
  const found = `${formatBytes(folder.freeBytes)} free`
  const advice = `free some; ${next('purge --older-than 30d')} makes room inside the file`
  if (folder.freeBytes < LEAST_FREE_BYTES) return fail(name, found, advice)
  return folder.freeBytes < SCARCE_FREE_BYTES ? warn(name, found, advice) : ok(name, found)
}

const OTHERS_READ = 0o044
const OTHERS_WRITE = 0o022

export function checkPermissions({ inspection: { folder, files } }: DoctorFacts): Check {
  const name = 'permissions'
  const places = [...(folder === null ? [] : [folder]), ...files]
  const unwritable = places.filter((place) => !place.isWritable).map(({ path }) => path)
  if (unwritable.length > 0) {
    return fail(
      name,
      `not writable for this user: ${unwritable.join(', ')}`,
      'run as the user who owns them, or change the owner',
    )
  }
  const open = files.filter(({ mode }) => (mode & (OTHERS_READ | OTHERS_WRITE)) !== 0).map(({ path }) => path)
  if (open.length > 0)
    return warn(name, `others can read payloads in ${open.join(', ')}`, `chmod 600 ${open.join(' ')}`)
  const STICKY = 0o1000
  if (folder !== null && (folder.mode & 0o002) !== 0 && (folder.mode & STICKY) === 0) {
    return warn(name, `anybody can replace files in ${folder.path}`, `chmod o-w ${folder.path}`)
  }
  return ok(name, files.length === 0 ? 'the folder is writable' : 'readable and writable for their owner only')
}
