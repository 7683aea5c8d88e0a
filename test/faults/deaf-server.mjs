// A server in a thread that stands still: the kernel takes connections for it, as many as its queue holds, and it accepts
// none of them before it is woken. Then it reads what waits, answers, and tells of each whole request.
import { createServer } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

const { awake, backlog } = workerData
const ASLEEP = 0

const server = createServer((socket) => {
  let text = ''
  socket.on('error', () => {}).on('data', (chunk) => {
    text += chunk.toString('latin1')
    const [head, body] = text.split('\r\n\r\n')
    if (body === undefined || body.length < Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0)) return
    const id = /^idempotency-key: *(.*?)\r?$/im.exec(head)?.[1] ?? 'task'
    parentPort.postMessage({ text })
    text = ''
    const answer = JSON.stringify({ id })
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`)
  })
})
server.listen({ port: 0, host: '127.0.0.1', backlog }, () => {
  parentPort.postMessage({ port: server.address().port })
  setImmediate(() => Atomics.wait(awake, 0, ASLEEP))
})
