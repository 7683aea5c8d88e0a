// The nearest known name for a mistyped one, for error messages.

/** @returns the closest of `known` within a third of the word's length, or null. */
export function nearestName(word: string, known: Iterable<string>): string | null {
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const name of known) {
    const distance = editDistance(word.toLowerCase(), name.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [name, distance]
  }
  return best
}

export function didYouMean(word: string, known: Iterable<string>): string {
  const nearest = nearestName(word, known)
  return nearest === null ? '' : `; did you mean "${nearest}"?`
}

/** Optimal string alignment: two letters in the wrong order are one slip. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = isSwapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY
      row.push(Math.min(at(i - 1, j - 1) + (same ? 0 : 1), at(i - 1, j) + 1, at(i, j - 1) + 1, swap))
    }
  }
  return at(a.length, b.length)
}
