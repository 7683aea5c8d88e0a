// Rules of the store on PostgreSQL, and that store without each. What breaks is seen where transactions of several processes run at once.
// A lock, and the version of a row, stand behind each other: either alone is enough for what a schedule shows, so both are taken out.
// The lock of limits no schedule has missed: whoever claims of a queue locks its next heads too.
import type { Rule } from './rules.ts'

const CLAIM_FUNCTIONS = 'store/postgres/claim-functions.js'
const TURN_FUNCTIONS = 'store/postgres/turn-functions.js'
const FUNCTIONS = 'store/postgres/functions.js'
const SAVE = 'store/postgres/save-function.js'

const NO_VERSIONS = [
  { file: SAVE, find: ` AND t.xmin::text = k."^"`, replace: '' },
  { file: SAVE, find: 'IF n <> counts[i] THEN', replace: 'IF false THEN' },
]

export const SERVER_RULES: readonly Rule[] = [
  {
    name: 'claimed-rows-are-nobody-elses',
    what: 'what one turn claims, no other claims meanwhile',
    patches: [
      ...NO_VERSIONS,
      {
        file: CLAIM_FUNCTIONS,
        find: 'q.request_id LIMIT wanted FOR UPDATE SKIP LOCKED) x',
        replace: 'q.request_id LIMIT wanted) x',
      },
      { file: CLAIM_FUNCTIONS, find: 'FOR UPDATE OF p SKIP LOCKED) x', replace: ') x' },
    ],
    seed: 42,
  },
  {
    name: 'answered-rows-are-nobody-elses',
    what: 'what an answer or a word is about, no other changes meanwhile',
    patches: [
      ...NO_VERSIONS,
      {
        file: FUNCTIONS,
        find: 'PERFORM 1 FROM $s.requests WHERE request_id = ANY(ids || beside) ORDER BY request_id FOR UPDATE;',
        replace: '',
      },
      {
        file: FUNCTIONS,
        find: 'PERFORM 1 FROM $s.task_state WHERE request_id = ANY(ids || beside) ORDER BY request_id FOR UPDATE;',
        replace: '',
      },
    ],
    seed: 21,
  },
  {
    name: 'plain-successes-leave-no-line',
    what: 'what the server settles by itself has nobody waiting behind it',
    patches: [{ file: TURN_FUNCTIONS, find: `<> 'live' AND q.ordering_key IS NULL`, replace: `<> 'live'` }],
    seed: 11,
  },
  {
    name: 'lost-commits-are-asked-about',
    what: 'a commit whose answer was lost is not taken for one that happened',
    patches: [
      {
        file: 'store/postgres/connection.js',
        find: "if (fate === 'committed')\n            return { made: conclude() };",
        replace: "if (fate === 'committed' || fate === 'aborted')\n            return { made: conclude() };",
      },
    ],
    seed: 75,
  },
  {
    name: 'another-branch-waits-for-a-word',
    what: 'a server on another branch of history than the one whose calls it has, calls nothing by itself',
    patches: [{ file: 'store/postgres/own.js', find: 'if (isOwn)', replace: 'if (true)' }],
    often: ['copy the store', 'put the copy back'],
    seed: 70,
  },
]
