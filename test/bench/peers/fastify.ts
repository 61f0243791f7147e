// Fastify with @fastify/jwt. It has no event streams of its own: they are written by hand, as are its long polls.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import jwt from '@fastify/jwt'
import fastify, { type FastifyReply } from 'fastify'

const { BODY = '{}', SECRET = '' } = process.env
const configuration = JSON.parse(BODY)
const MAX_EVENTS = 64
/** The latest events, oldest first, and their ids, preceded by that of the start. */
let events: readonly object[] = []
let ids: readonly string[] = [randomUUID()]
const streams = new Set<ServerResponse>()
let polls: FastifyReply[] = []

const app = fastify()
await app.register(jwt, { secret: Buffer.from(SECRET, 'base64url') })
app.addHook('onRequest', request => request.jwtVerify())

app.get('/api/v1/system', (_request, reply) => {
  reply.header('ETag', `"${ids.at(-1)}"`).send(configuration)
})

app.patch('/api/v1/system', (request, reply) => {
  Object.assign(configuration, request.body)
  const id = randomUUID()
  const event = { id, contentType: 'application/json', event: 'system.changed', data: request.body }
  ids = [...ids, id].slice(-MAX_EVENTS - 1)
  events = [...events, event].slice(-MAX_EVENTS)
  const frame = `id: ${id}\nevent: system.changed\ndata: ${JSON.stringify(request.body)}\n\n`
  for (const stream of streams) stream.write(frame)
  const waiting = polls
  polls = []
  for (const poll of waiting) answer(poll, [event])
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

function answer(reply: FastifyReply, body: readonly object[]): void {
  reply.header('ETag', `"${ids.at(-1)}"`).send(body)
}

console.error(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
