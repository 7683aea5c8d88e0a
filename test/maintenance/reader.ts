// A process that begins to read and does not end its transaction until it is killed. Its first line says that it reads.
import Database from 'better-sqlite3'

const [path = ''] = process.argv.slice(2)
const db = new Database(path, { readonly: true })
db.exec('BEGIN')
db.prepare('SELECT COUNT(*) FROM requests').get()
process.stdout.write('reading\n')
setInterval(() => db.open, 60_000)
