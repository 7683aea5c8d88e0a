import { type FileHandle, open } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { OnceishError } from '../../core/errors.ts'
import { MAX_PRIORITY } from '../../core/limits.ts'
import { type EnqueueLinesReport, LINE_SHAPE } from '../../producer/enqueue-lines.ts'
import { parsePayload } from '../../producer/parse-payload.ts'
import type { RequestView } from '../../store/views.ts'
import {
  type Deadline,
  deadline,
  durationMs,
  example,
  expiryOf,
  instant,
  nonEmpty,
  usage,
  wholeNumber,
} from '../arguments.ts'
import { type Context, readSettings, requireTarget, type Settings, withStore } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { escapeControls, plural, print, printJson } from '../print.ts'
import { startProgress } from '../progress.ts'

interface EnqueueOptions {
  readonly target?: string
  readonly payload?: string
  readonly file?: string
  readonly priority?: number
  readonly runAt?: number
  readonly delay?: number
  readonly expiresAt?: Deadline
  readonly logicalHash?: string
  readonly orderingKey?: string
  readonly group?: string
  readonly onError?: 'stop' | 'skip'
}

export function addEnqueue(program: Command): void {
  program
    .command('enqueue')
    .description('queue one request, or those of an NDJSON file; what is queued already is found again, not doubled')
    .argument('[-]', `lines from stdin: ${LINE_SHAPE}`)
    .option('--target <name>', 'its target, or that of lines that name none', nonEmpty)
    .option('--payload <json>', 'one request')
    .option('--file <path>', 'one request a line')
    .option('--priority <n>', 'higher goes first (0)', wholeNumber(-MAX_PRIORITY, MAX_PRIORITY))
    .option('--run-at <time>', 'not before: ISO 8601 with a zone, or epoch milliseconds', instant)
    .option('--delay <duration>', 'not before so long from now, such as 15m', durationMs)
    .option(
      '--expires-at <time>',
      'not called after it, as --run-at; "never" where its target has a deadline for all',
      deadline,
    )
    .option('--logical-hash <text>', 'what makes two requests the same, instead of target and payload', nonEmpty)
    .option('--ordering-key <key>', 'of its target, one of this key is called at a time, in order', nonEmpty)
    .option('--group <name>', 'such as a customer: of its target, groups take turns at being called', nonEmpty)
    .addOption(new Option('--on-error <what>', 'at a bad line: stop (default), or skip it').choices(['stop', 'skip']))
    .addHelpText(
      'after',
      example(
        `onceish enqueue --target transcribe --payload '{"url":"https://example.com/a.mp3"}'`,
        'onceish enqueue --file requests.ndjson --on-error skip',
      ),
    )
    .action(async (stdin: string | undefined, options: EnqueueOptions, command: Command) => {
      const settings = await readSettings(command)
      checkOptions(stdin, options)
      if (options.target !== undefined) requireTarget(settings.config, options.target)
      if (options.payload !== undefined) return enqueueOne(settings, options.payload, options)
      await enqueueFile(settings, stdin ?? options.file ?? '-', options)
    })
}

/** @throws OnceishError USAGE */
function checkOptions(stdin: string | undefined, { target, payload, file, onError, ...ofOne }: EnqueueOptions): void {
  if (stdin !== undefined && stdin !== '-')
    throw usage(`unexpected argument "${stdin}": a file is given with --file, "-" is stdin`)
  const sources = [payload, file, stdin].filter((source) => source !== undefined)
  if (sources.length !== 1)
    throw usage(`give exactly one of --payload JSON, --file FILE or - (stdin); ${sources.length} given`)
  if (payload !== undefined) {
    if (target === undefined) throw usage('--payload needs --target')
    if (onError !== undefined) throw usage('--on-error goes with --file or -')
    return
  }
  if (Object.keys(OF_ONE).some((name) => ofOne[name as keyof typeof ofOne] !== undefined)) {
    const fields = Object.keys(OF_ONE).map((name) => `"${name}"`)
    throw usage(`${listed(Object.values(OF_ONE))} go with --payload; a line says its own as ${listed(fields)}`)
  }
}

const OF_ONE = {
  priority: '--priority',
  runAt: '--run-at',
  delay: '--delay',
  expiresAt: '--expires-at',
  logicalHash: '--logical-hash',
  orderingKey: '--ordering-key',
  group: '--group',
} as const

function listed(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

async function enqueueOne(settings: Settings, payloadText: string, options: EnqueueOptions): Promise<void> {
  const { target = '', priority, runAt, delay, expiresAt, logicalHash, orderingKey, group } = options
  const payload = asUsage('--payload', () => parsePayload(payloadText))
  if (runAt !== undefined && delay !== undefined)
    throw usage('--run-at and --delay both say when it is due: give one of them')
  await withStore(settings, { create: true }, async ({ once, isJson }) => {
    const { requestId, state, taskId, deduplicated } = await once.enqueue({
      target,
      payload,
      priority,
      runAt,
      delay,
      expiresAt: expiresAt === undefined ? undefined : expiryOf(expiresAt),
      logicalHash,
      orderingKey,
      group,
    })
    if (isJson) {
      const view = await once.get(requestId)
      printJson({ requestId, target, state, taskId, ...(view && keysOf(view)), deduplicated })
    } else if (deduplicated) {
      print(
        escapeControls(
          `request ${requestId} was there already: ${state}${taskId === null ? '' : `, task ${taskId}`}; nothing was added${await keptKeys(once, requestId, options)}`,
        ),
      )
    } else {
      print(`request ${requestId} is ${state} for ${target}`)
    }
  })
}

/** A request that was there already keeps the ordering key and the group that it has, or none: whoever asked for another is told. */
async function keptKeys({ get }: Context['once'], requestId: number, asked: EnqueueOptions): Promise<string> {
  const kept = await get(requestId)
  const differing = (['orderingKey', 'group'] as const).filter(
    (name) => asked[name] !== undefined && asked[name] !== kept?.[name],
  )
  return differing
    .map((name) => {
      const what = name === 'group' ? 'group' : 'ordering key'
      return kept?.[name] ? `, and its ${what} is ${kept[name]}` : `, and it has no ${what}`
    })
    .join('')
}

/** What it has of a key and a group while it is owed. */
function keysOf({ logicalHash, orderingKey, group }: RequestView) {
  return { logicalHash, ...(orderingKey !== null && { orderingKey }), ...(group !== null && { group }) }
}

/** What is wrong with the command line itself is a usage error, whoever finds it. */
function asUsage<T>(option: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw usage(`${option}: ${(error as Error).message}`)
  }
}

interface Source {
  readonly chunks: AsyncIterable<Buffer>
  /** 0: unknown. */
  readonly bytes: number
}

async function enqueueFile(
  settings: Settings,
  path: string,
  { target, onError = 'stop' }: EnqueueOptions,
): Promise<void> {
  const source = path === '-' ? { chunks: chunksOf(process.stdin, 'stdin'), bytes: 0 } : await openSource(path)
  await withStore(settings, { create: true }, async (context) => {
    const progress = startProgress({
      isJson: context.isJson || source.bytes === 0,
      format: '{bar} {percentage}%{note}',
      total: source.bytes,
    })
    const report = await context.once
      .enqueueLines(source.chunks, {
        defaultTarget: target,
        onError,
        onProgress: ({ lines, bytes }) => progress.update(bytes, source.bytes, `, ${plural(lines, 'line')}`),
      })
      .finally(() => progress.stop())
    printLines(context, report, onError)
  })
}

/** Before the store is opened, so that a mistyped path makes no database. @throws OnceishError FILE_UNREADABLE */
async function openSource(path: string): Promise<Source> {
  let handle: FileHandle
  try {
    handle = await open(path)
  } catch (error) {
    throw unreadable(path, error)
  }
  const stat = await handle.stat()
  if (stat.isDirectory()) {
    await handle.close()
    throw new OnceishError('FILE_UNREADABLE', `${path} is a folder: name a file with one request a line`)
  }
  return {
    chunks: chunksOf(handle.createReadStream({ highWaterMark: 262_144 }), path),
    bytes: stat.isFile() ? stat.size : 0,
  }
}

async function* chunksOf(stream: AsyncIterable<unknown>, name: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream) yield chunk as Buffer
  } catch (error) {
    throw unreadable(name, error)
  }
}

function unreadable(name: string, error: unknown): OnceishError {
  return new OnceishError('FILE_UNREADABLE', `cannot read ${name}: ${(error as Error).message}`, { cause: error })
}

function printLines({ isJson, config }: Context, report: EnqueueLinesReport, onError: 'stop' | 'skip'): void {
  const { enqueued, deduplicated, skipped, errors } = report
  for (const { line, code, message } of errors)
    process.stderr.write(`line ${line}: ${escapeControls(message)} (${code})\n`)
  if (skipped > errors.length) process.stderr.write(`and ${skipped - errors.length} more lines\n`)
  if (isJson) printJson({ enqueued, deduplicated, skipped, errors })
  else if (onError === 'skip' || skipped === 0)
    print(`${enqueued} enqueued, ${deduplicated} there already, ${skipped} skipped`)
  const stopped = onError === 'stop' ? errors.at(-1) : undefined
  if (stopped === undefined) {
    process.exitCode = skipped > 0 ? EXIT.needsPerson : EXIT.done
    return
  }
  const again = [...Object.values(config.targets), ...Object.values(config.codeTargets).map(({ care }) => care)].every(
    ({ dedupe }) => dedupe === 'always',
  )
    ? ''
    : ' (but for targets with dedupe live or none)'
  throw new OnceishError(
    stopped.code as OnceishError['code'],
    `stopped at line ${stopped.line}: ${plural(enqueued, 'request')} before it stay enqueued, ${deduplicated} were there already; correct the line and run the whole file again, which is safe${again}`,
  )
}
