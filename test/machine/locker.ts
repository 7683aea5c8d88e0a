// A process that takes the writers' lock and keeps it until it is killed. Its first line says that it has it.
import Database from 'better-sqlite3'

const [path = ''] = process.argv.slice(2)
const db = new Database(path)
db.exec('BEGIN EXCLUSIVE')
process.stdout.write('locked\n')
setInterval(() => db.open, 60_000)
