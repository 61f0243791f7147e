// Express with jsonwebtoken, and the streams of better-sse.
import { createSecretKey, randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { createChannel, createSession } from 'better-sse'
import express from 'express'
import jsonwebtoken from 'jsonwebtoken'

const { BODY = '{}', SECRET = '' } = process.env
// As a key object: given a string or a Buffer, jsonwebtoken first tries whether it is a public key, for half a millisecond.
const secret = createSecretKey(Buffer.from(SECRET, 'base64url'))
const configuration = JSON.parse(BODY)
const channel = createChannel()

const app = express()
app.use((request, response, next) => {
  try {
    response.locals.user = jsonwebtoken.verify(request.headers.authorization?.slice('Bearer '.length) ?? '', secret)
    next()
  } catch {
    response.status(401).end()
  }
})
app.use(express.json())

app.get('/api/v1/system', (_request, response) => {
  response.json(configuration)
})

app.patch('/api/v1/system', (request, response) => {
  Object.assign(configuration, request.body)
  channel.broadcast(request.body, 'system.changed', { eventId: randomUUID() })
  response.json(configuration)
})

app.get('/api/v1/events', async (request, response) => {
  channel.register(await createSession(request, response))
})

const server = app.listen(0, '127.0.0.1', () => {
  console.error(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
