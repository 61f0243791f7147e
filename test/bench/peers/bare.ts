// What the service is held against: the least that node:http needs to answer the same requests. It checks nobody,
// checks nothing, keeps nothing. Its argument is how many bytes it answers with.
import { randomUUID } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const body = ' '.repeat(Number(process.argv[2]))
const streams = new Set<ServerResponse>()

const answer = (response: ServerResponse) =>
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length }).end(body)

const server = createServer((request, response) => {
  if (request.method === 'PATCH') {
    let data = ''
    request.setEncoding('utf8').on('data', chunk => {
      data += chunk
    })
    request.on('end', () => {
      const frame = `id: ${randomUUID()}\nevent: system.changed\ndata: ${data}\n\n`
      for (const stream of streams) stream.write(frame)
      answer(response)
    })
  } else if (request.url === '/api/v1/events') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(':\n\n')
    streams.add(response)
    response.on('close', () => streams.delete(response))
  } else answer(response)
})
server.listen(0, '127.0.0.1', () => {
  console.error(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
