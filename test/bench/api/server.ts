// An API as plain as Node serves it, in a process of its own: it reads a POST and gives a task id, after `delayMs`. Other
// requests find the task of the key that their path ends with. `node server.ts DELAY_MS` writes its port to stdout; it ends with its stdin.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const delayMs = Number(process.argv.at(-1))
let made = 0

function answer({ method, url }: IncomingMessage, response: ServerResponse): void {
  const isNew = method === 'POST'
  const body = `{"id":"task-${isNew ? ++made : url?.split('/').at(-1)}"}`
  response.writeHead(isNew ? 201 : 200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
}

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    if (delayMs > 0) setTimeout(answer, delayMs, request, response)
    else answer(request, response)
  })
})
// Connections rest between rounds.
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
process.stdin.resume().on('end', () => process.exit(0))
