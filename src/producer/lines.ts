// Lines of a byte stream, numbered, in bounded memory: a line beyond the limit is reported and skipped, never collected.
import { isUtf8 } from 'node:buffer'

export type Line =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly fault: 'too_long' | 'not_utf8' }

const NEWLINE = 0x0a

/** Ends at the last byte, whether or not that is a newline. Empty lines are counted and given as ''. */
export async function* readLines(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line> {
  let number = 0
  let parts: Buffer[] = []
  let bytes = 0
  const take = (): Line => {
    number++
    const line = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
    const isTooLong = bytes > maxBytes
    parts = []
    bytes = 0
    if (isTooLong) return { number, fault: 'too_long' }
    return isUtf8(line) ? { number, text: withoutMark(line.toString('utf8'), number) } : { number, fault: 'not_utf8' }
  }
  const keep = (part: Buffer) => {
    bytes += part.length
    if (bytes <= maxBytes) parts.push(part)
    else parts = []
  }
  for await (const chunk of source) {
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      keep(chunk.subarray(start, end))
      start = end + 1
      yield take()
    }
    if (start < chunk.length) keep(chunk.subarray(start))
  }
  if (bytes > 0) yield take()
}

function withoutMark(text: string, number: number): string {
  return number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text
}
