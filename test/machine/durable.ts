// Reads from a trace when something was surely on disk, and when something was first told to the outside.
import type { Syscall } from './trace.ts'

/**
 * The place at which `text` was on disk: the end of the first successful sync of a write-ahead log that began after the commit
 * which wrote the text there; infinity where there is none.
 */
export function syncedAt(trace: readonly Syscall[], text: string): number {
  const written = trace.findIndex((call) => isLogWrite(call) && call.data.includes(text))
  const log = trace[written]?.file
  if (written === -1) return Number.POSITIVE_INFINITY
  // A frame's header comes right before its page: that of the text's own page may be the commit's.
  const commit = trace.findIndex((call, i) => i >= written - 1 && call.file === log && isCommitHeader(call))
  const page = trace.findIndex((call, i) => i > commit && call.file === log && isLogWrite(call))
  const wholeAt = trace[page]?.endedAt
  if (commit === -1 || wholeAt === undefined) return Number.POSITIVE_INFINITY
  const sync = trace.find(
    (call) => call.file === log && /^f(data)?sync$/.test(call.name) && call.beganAt > wholeAt && call.result === 0,
  )
  return sync?.endedAt ?? Number.POSITIVE_INFINITY
}

function isLogWrite({ name, file }: Syscall): boolean {
  return name.startsWith('pwrite') && file.endsWith('-wal')
}

const FRAME_HEADER_BYTES = 24

/** SQLite's file format: a frame whose header names the size of the database, in its bytes 4 to 7, ends a transaction. */
function isCommitHeader(call: Syscall): boolean {
  return isLogWrite(call) && call.data.length === FRAME_HEADER_BYTES && call.data.readUInt32BE(4) !== 0
}

/** Where each line of stdout began to be written. */
export function toldAt(trace: readonly Syscall[], text: string): number {
  const call = trace.find(({ fd, name, data }) => fd === 1 && /^write/.test(name) && data.includes(text))
  return call?.beganAt ?? Number.NaN
}

export interface SentRequest {
  readonly text: string
  /** Of its first byte. */
  readonly beganAt: number
}

/** Every HTTP request of the process: what was written to each socket in order, divided at the heads' lengths. */
export function sentRequests(trace: readonly Syscall[]): SentRequest[] {
  const sockets = new Map<string, Syscall[]>()
  for (const call of trace) {
    if (!call.file.startsWith('TCP') || call.data.length === 0 || call.result <= 0) continue
    const key = `${call.fd} ${call.file}`
    sockets.set(key, [...(sockets.get(key) ?? []), call])
  }
  return [...sockets.values()].flatMap(divide)
}

function divide(calls: readonly Syscall[]): SentRequest[] {
  const stream = Buffer.concat(calls.map(({ data, result }) => data.subarray(0, result)))
  const requests: SentRequest[] = []
  for (let from = 0; from < stream.length; ) {
    const bodyAt = stream.indexOf('\r\n\r\n', from) + 4
    const head = stream.toString('latin1', from, bodyAt)
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0)
    const end = bodyAt + length
    requests.push({ text: stream.toString('latin1', from, end), beganAt: callAt(calls, from).beganAt })
    if (end <= from) break
    from = end
  }
  return requests
}

function callAt(calls: readonly Syscall[], offset: number): Syscall {
  let end = 0
  for (const call of calls) {
    end += call.result
    if (offset < end) return call
  }
  throw new Error('no call wrote this byte')
}
