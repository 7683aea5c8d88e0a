// Preloaded into a process: its connections sync less than the product asks for, and say that they sync as asked. What reads
// traces must notice. The level is ONCEISH_TEST_SYNCHRONOUS.
import Database from 'better-sqlite3'

const FULL = 2
const { pragma } = Database.prototype
Database.prototype.pragma = function (source, options) {
  if (source === 'synchronous') return FULL
  const isAsked = source === 'synchronous = FULL'
  return pragma.call(this, isAsked ? `synchronous = ${process.env.ONCEISH_TEST_SYNCHRONOUS}` : source, options)
}
