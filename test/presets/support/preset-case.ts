// What is tested of a preset: its API's contract, and to which state each documented answer leads.
import { expect } from 'vitest'
import type { TargetKind } from '../../../src/cli/promise.ts'
import type { RequestState } from '../../../src/core/task-state.ts'
import type { Contract, FakeApi, Fields, Mishap } from './fake-api.ts'

export interface AnswerCase {
  /** Ends the sentence "an answer that ...". */
  readonly says: string
  readonly mishaps: readonly Mishap[]
  readonly given?: Fields
  readonly deadlineMs?: number
  readonly state: RequestState
  readonly reason?: string
  readonly taskId?: string | null
  readonly calls: number
  /** Default 1. */
  readonly effects?: number
  /** Whether all calls came under one key; absent: there is none, or one call. */
  readonly keys?: 'same' | 'new'
  /** Of what is kept of the last answer. */
  readonly evidence?: Fields
}

export interface PresetCase {
  readonly name: string
  readonly target: string
  readonly kind: TargetKind
  readonly payload: Fields
  readonly env: Readonly<Record<string, string>>
  readonly contract: Contract
  /** Of the one effect, where the API shows it; null: it never does. */
  readonly taskId: (fake: FakeApi) => string | null
  /** Fields of the first call's body. */
  readonly sent: Fields
  /** What becomes of a request whose worker died between the call and the record. */
  readonly afterCrash: { readonly state: 'submitted' | 'held'; readonly taskId: 'shown' | 'key' | null }
  readonly answers: readonly AnswerCase[]
  readonly tracked?: readonly { readonly given: Fields; readonly state: RequestState }[]
}

/** A key of ours, where it was sent. */
export const KEY: unknown = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)

export const refused = (status: number, body?: unknown, headers: Record<string, string> = {}): Mishap => ({
  kind: 'refused',
  answer: { status, body, headers },
})

export const saved = (status: number, body?: unknown): Mishap => ({
  kind: 'refused',
  answer: { status, body },
  saved: true,
})

export const after = (status: number, body?: unknown, headers: Record<string, string> = {}): Mishap => ({
  kind: 'after',
  answer: { status, body, headers },
})

export const CUT: Mishap = { kind: 'cut' }
export const LOST: Mishap = { kind: 'lost' }
export const RUNNING: Mishap = { kind: 'running' }
