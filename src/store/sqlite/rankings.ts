// By what the targets' queues are ranked: priority alone, or with aging. The word of the worker that started last holds for every
// process. Rows that were ranked by an earlier word are moved a slice a turn; until then they stand where that had put them.
import { orderOf } from '../../core/ranking.ts'
import { MOVED_A_TURN } from '../bounds.ts'
import type { RankingChange, RankingWord } from '../store.ts'
import { noteTargetEvent, type Word } from './events.ts'
import type { Statements } from './statements.ts'

interface Ranking {
  readonly target: string
  /** Null: priority alone. */
  readonly agingMs: number | null
  /** Other steps by which rows may still be ranked. */
  readonly formers: readonly number[]
  /** How far they have been moved; null: all of them. */
  readonly moved: Place | null
}

type Place = readonly [group: string, rank: number, dueAt: number, requestId: number]

/** Targets that are not in it are ranked by priority alone, and always were or are so again. */
export type Rankings = ReadonlyMap<string, Ranking>

export const NO_RANKINGS: Rankings = new Map()
const NOTHING_AGES: ReadonlyMap<string, number> = new Map()
const BEFORE_ALL: Place = ['', Number.MIN_SAFE_INTEGER, 0, 0]

export function readRankings(sql: Statements): Rankings {
  const rows = sql.rankings.all() as {
    target: string
    aging_ms: number | null
    formers: string
    moved: string | null
  }[]
  return new Map(
    rows.map(({ target, aging_ms: agingMs, formers, moved }) => [
      target,
      { target, agingMs, formers: JSON.parse(formers), moved: moved === null ? null : JSON.parse(moved) },
    ]),
  )
}

/** Minus the priority that a rank of this target comes to by now: comparable between targets. */
export function orderIn(rankings: Rankings, target: string, rank: number, now: number): number {
  const ranking = rankings.get(target)
  return ranking === undefined ? rank : orderOf(rank, ranking.agingMs ?? ranking.formers.at(-1) ?? null, now)
}

/** Of the targets whose queue ages. */
export function agingOf(rankings: Rankings): ReadonlyMap<string, number> {
  if (rankings.size === 0) return NOTHING_AGES
  const aging = new Map<string, number>()
  for (const { target, agingMs } of rankings.values()) if (agingMs !== null) aging.set(target, agingMs)
  return aging
}

export function isRankedSo(sql: Statements, words: readonly RankingWord[]): boolean {
  const known = readRankings(sql)
  return words.every(({ target, agingMs }) => (known.get(target)?.agingMs ?? null) === agingMs)
}

/** The newest word holds. @returns what it changed. */
export function setRankings(sql: Statements, words: readonly RankingWord[], word: Word): RankingChange[] {
  const known = readRankings(sql)
  return words.flatMap(({ target, agingMs }) => {
    const ranking = known.get(target)
    const formerMs = ranking?.agingMs ?? null
    if (formerMs === agingMs) return []
    const formers = new Set([...(ranking?.formers ?? []), ...(formerMs === null ? [] : [formerMs])])
    save(sql, { target, agingMs, formers: [...formers], moved: BEFORE_ALL })
    noteTargetEvent(sql, target, { kind: 'target_reranked', reason: null, detail: { agingMs, formerMs } }, word)
    return [{ target, agingMs, formerMs }]
  })
}

/** Moves a slice of the rows that an earlier ranking has placed. @returns whether there may be more. */
export function moveRanks(sql: Statements, rankings: Rankings): boolean {
  for (const ranking of rankings.values()) {
    if (ranking.moved === null) continue
    moveSlice(sql, ranking, ranking.moved)
    return true
  }
  return false
}

function moveSlice(sql: Statements, ranking: Ranking, from: Place): void {
  const { target } = ranking
  const rows = sql.ranksAfter.all(target, ...from, MOVED_A_TURN) as {
    group_key: string
    rank: number
    due_at: number
    request_id: number
    wanted: number
  }[]
  for (const { group_key: group, rank, due_at: dueAt, request_id: id, wanted } of rows) {
    if (wanted !== rank) sql.moveRank.run(wanted, target, group, rank, dueAt, id)
  }
  const last = rows.at(-1)
  if (last !== undefined && rows.length === MOVED_A_TURN)
    save(sql, { ...ranking, moved: [last.group_key, last.rank, last.due_at, last.request_id] })
  else save(sql, { ...ranking, formers: [], moved: null })
}

function save(sql: Statements, { target, agingMs, formers, moved }: Ranking): void {
  // Ranked by priority alone, and whole: there is nothing to know of it.
  if (agingMs === null && moved === null) sql.deleteRanking.run(target)
  else sql.saveRanking.run(target, agingMs, JSON.stringify(formers), moved === null ? null : JSON.stringify(moved))
}
