// The least that node:http needs to answer the same requests with as many bytes: it checks no credentials, stores
// nothing and keeps no events. Its argument is the length of its answers.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const body = Buffer.alloc(Number(process.argv[2]), ' ')
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
      // The global, which loads node:crypto at its first use: a start does not need it.
      const frame = `id: ${crypto.randomUUID()}\nevent: system.changed\ndata: ${data}\n\n`
      for (const stream of streams) stream.write(frame)
      answer(response)
    })
  } else if (request.headers.accept === 'text/event-stream') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(':\n\n')
    streams.add(response)
    response.on('close', () => streams.delete(response))
  } else answer(response)
})
server.listen(0, '127.0.0.1', () => {
  console.error(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
