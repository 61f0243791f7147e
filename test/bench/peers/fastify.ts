import { randomUUID } from 'node:crypto'
import jwt from '@fastify/jwt'
import fastify from 'fastify'

const { PORT, BODY = '{}', SECRET } = process.env
const configuration = JSON.parse(BODY)
/** Of the latest events, the oldest first, and their ids with the start's own before them. */
const KEPT = 64
let events = []
let ids = [randomUUID()]
const streams = new Set()
let polls = []

const app = fastify()
await app.register(jwt, { secret: Buffer.from(SECRET, 'base64url') })
app.addHook('onRequest', request => request.jwtVerify())

app.get('/api/v1/system', (_request, reply) => {
  reply.header('ETag', `"${ids.at(-1)}"`).send(configuration)
})

app.patch('/api/v1/system', (request, reply) => {
  Object.assign(configuration, request.body)
  const id = randomUUID()
  ids = [...ids, id].slice(-KEPT - 1)
  events = [...events, { contentType: 'application/json', event: 'system.changed', data: request.body }].slice(-KEPT)
  const frame = `id: ${id}\nevent: system.changed\ndata: ${JSON.stringify(request.body)}\n\n`
  for (const stream of streams) stream.write(frame)
  const waiting = polls
  polls = []
  for (const poll of waiting) answer(poll, [events.at(-1)])
  reply.header('ETag', `"${id}"`).send(configuration)
})

app.get('/api/v1/events', (request, reply) => {
  if (request.headers.accept === 'text/event-stream') {
    reply.hijack()
    reply.raw.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    reply.raw.write(': open\n\n')
    streams.add(reply.raw)
    reply.raw.on('close', () => streams.delete(reply.raw))
    return
  }
  const known = request.headers['if-none-match']
  if (known === `"${ids.at(-1)}"`) polls.push(reply)
  else answer(reply, known === undefined ? [] : events.slice(ids.indexOf(known.slice(1, -1))))
})

function answer(reply, body) {
  reply.header('ETag', `"${ids.at(-1)}"`).send(body)
}

await app.listen({ port: Number(PORT), host: '127.0.0.1' })
