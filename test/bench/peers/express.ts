// Express with jsonwebtoken, and the streams of better-sse.
import { createSecretKey, randomUUID } from 'node:crypto'
import { createChannel, createSession } from 'better-sse'
import express from 'express'
import jsonwebtoken from 'jsonwebtoken'

const { PORT, BODY = '{}', SECRET } = process.env
// As a key object: of a text or a Buffer jsonwebtoken tries first whether it is a public key, for half a millisecond.
const secret = createSecretKey(Buffer.from(SECRET, 'base64url'))
const configuration = JSON.parse(BODY)
const channel = createChannel()

const app = express()
app.use((request, response, next) => {
  try {
    request.user = jsonwebtoken.verify(request.headers.authorization.slice('Bearer '.length), secret)
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

app.listen(Number(PORT), '127.0.0.1')
