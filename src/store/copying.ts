// The words of a copy from one engine to another: what is read from the one side, told to the other, and how both are set aside.

/** Bytes are text as PostgreSQL writes them: `\x` and hex digits. */
export type CopiedCell = string | number | null
/** In the order of its table's columns. */
export type CopiedRow = readonly CopiedCell[]

export interface CopiedTable {
  readonly name: string
  readonly columns: readonly string[]
}

/** Told of a source that was set aside. */
export interface SetAside {
  readonly copyId: string
  /** Where it went, without credentials. */
  readonly to: string
  /** UTC epoch ms. */
  readonly at: number
}

export interface SourceFacts {
  readonly namespace: string
  readonly incarnation: string
  readonly highWaterAt: number
  readonly hasCalled: boolean
  /** By how much its steady time is ahead of the clock of this machine. */
  readonly clockAheadMs: number
  /** Something of it is in doubt, whose windows go by the clock. */
  readonly hasDoubt: boolean
  /** The last numbers that it gave out. */
  readonly lastIds: { readonly requests: number; readonly events: number; readonly orphans: number }
  readonly rows: Readonly<Record<string, number>>
  readonly setAside: SetAside | null
}

export interface CopiedPage {
  readonly rows: readonly CopiedRow[]
  /** Of the last row; the next page begins after it. Null: there was none. */
  readonly lastKey: string | null
}

export interface SetAsideOrder {
  readonly copyId: string
  readonly to: string
  readonly now: number
  readonly actor: string
}

export interface TakeBackOrder {
  readonly now: number
  readonly actor: string
  /** The copy may have called: then nothing is called here before a person has said `recover --restored`. */
  readonly mayHaveCalled: boolean
}

/** @throws OnceishError STORE_* from each method. */
export interface CopySource {
  readonly location: string
  facts(tables: readonly CopiedTable[]): SourceFacts
  /** Null: it may be worked. */
  whereTo(): SetAside | null
  /**
   * From here on nothing works on it, whatever release it is of. Nobody else may have it open at that moment.
   * @throws OnceishError STORE_IN_USE, STORE_RESTORED, STORE_MOVED
   */
  setAside(order: SetAsideOrder): Promise<void>
  /** Undoes that. @throws OnceishError STORE_IN_USE */
  takeBack(order: TakeBackOrder): Promise<void>
  /** A bounded number of rows, in the order of their key. */
  page(table: CopiedTable, afterKey: string | null): CopiedPage
  close(): void
}

/** How far a copy is. */
export type CopyState =
  /** Nobody has worked on it, and no copy was begun. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'used' }
  | {
      readonly kind: 'copying' | 'complete' | 'given_up'
      readonly copyId: string
      readonly from: string
      /** Of the store that is copied. */
      readonly incarnation: string
      /** It was complete once, and may have been worked. */
      readonly wasComplete: boolean
    }

/** By table. */
export type CopyProgress = Readonly<Record<string, { readonly key: string | null; readonly rows: number }>>

export interface CopyOrder {
  readonly copyId: string
  readonly from: string
  readonly facts: SourceFacts
}

/** Where a copy goes. It refuses to be worked until the copy is complete. @throws OnceishError STORE_* from each method. */
export interface CopyDestination {
  /** Without credentials. */
  readonly location: string
  readonly tables: readonly CopiedTable[]
  state(): Promise<CopyState>
  /** The time of its clock, by which all that is copied goes from then on. */
  now(): Promise<number>
  /** Sets it aside, and empties what an earlier copy left. @returns how far this copy is. @throws OnceishError COPY_REFUSED */
  begin(order: CopyOrder): Promise<CopyProgress>
  /** One page and how far it leads, in one transaction. @throws OnceishError COPY_REFUSED: another process copies */
  write(copyId: string, table: string, afterKey: string | null, page: CopiedPage): Promise<void>
  /** Every row of every table, as of one instant. @returns which server said so. */
  readAll(onRows: (table: string, rows: readonly CopiedRow[]) => void, onStart: () => void): Promise<string>
  /** Lets workers in. @param server as `readAll` had it. @throws OnceishError COPY_REFUSED */
  complete(copyId: string, facts: SourceFacts, server: string): Promise<void>
  /**
   * Nobody works on it from here on. @returns whether anybody may have.
   * @throws OnceishError COPY_REFUSED where it may have been worked and that is not `force`d, STORE_IN_USE
   */
  giveUp(copyId: string, force: boolean): Promise<{ readonly mayHaveCalled: boolean }>
  close(): Promise<void>
}
