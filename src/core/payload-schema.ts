// What a target takes as its payload. Any schema that speaks Standard Schema (https://standardschema.dev) will do: zod 3.24
// and later, valibot, arktype.
import { OnceishError } from './errors.ts'

/** Standard Schema V1, as far as it is needed. */
export interface PayloadSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    /** Gives the output, or the issues. */
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** What a schema says of a value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

/** One fault of a value. */
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What `enqueue` takes. */
export type PayloadInput<Schema> = Schema extends { '~standard': { types?: infer Types } }
  ? NonNullable<Types> extends { readonly input: infer Input }
    ? Input
    : unknown
  : unknown

/** What is stored and what `invoke` gets: the schema's output, with its defaults filled in. */
export type PayloadOutput<Schema> = Schema extends { '~standard': { types?: infer Types } }
  ? NonNullable<Types> extends { readonly output: infer Output }
    ? Output
    : unknown
  : unknown

/** @returns the schema's output, or a promise of it where the schema itself takes time. @throws OnceishError PAYLOAD_INVALID */
export function checkPayload(schema: PayloadSchema, payload: unknown, target: string): unknown {
  const result = schema['~standard'].validate(payload)
  return result instanceof Promise ? result.then((late) => outputOf(late, target)) : outputOf(result, target)
}

function outputOf(result: SchemaResult<unknown>, target: string): unknown {
  if (result.issues === undefined) return result.value
  const lines = result.issues.map(({ path = [], message }) => `${pathText(path)}: ${message}`)
  const issues = result.issues.map(({ path = [], message }) => ({ path: pathText(path), message }))
  throw new OnceishError('PAYLOAD_INVALID', `the payload is not what target "${target}" takes:\n${lines.join('\n')}`, {
    details: { target, issues },
  })
}

function pathText(path: NonNullable<SchemaIssue['path']>): string {
  return path.reduce<string>((text, step) => {
    const key = typeof step === 'object' ? step.key : step
    return typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`
  }, 'payload')
}
