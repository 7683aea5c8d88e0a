// An API that notes how long after its enqueue each call arrives: `sentAtUs` of the payload, by the machine's monotonic clock,
// which all processes share. Says its port; asked anything, it tells the milliseconds since it was last asked.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

let arrivals: number[] = []
let made = 0

const server = createServer((request, response) => {
  const arrivedAtNs = process.hrtime.bigint()
  let text = ''
  request.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  request.on('end', () => {
    const { sentAtUs } = JSON.parse(text) as { sentAtUs: number }
    arrivals.push(Number(arrivedAtNs) / 1e6 - sentAtUs / 1000)
    const body = `{"id":"task-${++made}"}`
    response.writeHead(201, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
  })
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('message', () => {
  process.send?.(arrivals)
  arrivals = []
})
process.on('disconnect', () => process.exit(0))
