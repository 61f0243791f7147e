/** Every credential of the vectors, presented to the running service in every form. */
import { readFileSync } from 'node:fs'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import t from 'tap'
import { type Receiver, startReceiver } from './support.ts'

interface Vector {
  readonly name: string
  readonly token: string
  readonly expect: 'accept' | 'reject'
  readonly grants?: readonly string[]
  readonly reason?: string
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

const { apiKey, vectors } = JSON.parse(
  readFileSync(new URL('../fixtures/jwt-vectors.json', import.meta.url), 'utf8'),
) as { apiKey: string; vectors: readonly Vector[] }

/** Longer than the head of a request may be. */
const TOO_LONG = 8 * 1024

interface Presented {
  readonly path?: string
  readonly authorization?: string
}

const base64 = (text: string) => Buffer.from(text).toString('base64')

const WAYS: Readonly<Record<string, (token: string) => Presented>> = {
  Bearer: token => ({ authorization: `Bearer ${token}` }),
  Basic: token => ({ authorization: `Basic ${token}` }),
  'Basic of RFC 7617': token => ({ authorization: `Basic ${base64(`panel:${token}`)}` }),
  'the query': token => ({ path: `?apiKey=${encodeURIComponent(token)}` }),
}

function ask(agent: Agent, receiver: Receiver, method: 'GET' | 'PATCH', presented: Presented): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      agent,
      method,
      // Node's client sends a header of 64 KiB without complaint.
      headers: {
        ...(presented.authorization !== undefined && { Authorization: presented.authorization }),
        ...(method === 'PATCH' && { 'Content-Type': 'application/json', 'Content-Length': 2 }),
      },
    }
    const asked = request(`${receiver.url}/api/v1/system${presented.path ?? ''}`, options, response => {
      response.resume().on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers }))
    })
    asked.on('error', reject)
    asked.end(method === 'PATCH' ? '{}' : undefined)
  })
}

t.test('vectors', async t => {
  const receiver = await startReceiver(t, { apiKey })
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  t.teardown(() => agent.destroy())
  t.equal(receiver.key, apiKey, 'the key of the file is the one in force')
  t.equal(vectors.length, 67)
  const { pid } = receiver

  for (const vector of vectors) {
    const { name, token, expect, grants = [] } = vector
    await t.test(name, async t => {
      for (const [way, present] of Object.entries(WAYS)) {
        const presented = present(token)
        const read = await ask(agent, receiver, 'GET', presented)
        if (expect === 'accept') {
          const write = await ask(agent, receiver, 'PATCH', presented)
          const expected = ['admin:r', 'admin:w'].map(grant => (grants.includes(grant) ? 200 : 403))
          t.same([read.status, write.status], expected, `${way}: what it grants`)
          if (read.status === 403)
            t.equal(
              read.headers['www-authenticate'],
              'Bearer realm="receiverd", error="insufficient_scope", scope="admin:r"',
              `${way}: the challenge`,
            )
        } else if (token.length > TOO_LONG) {
          t.equal(read.status, 431, way)
        } else {
          t.equal(read.status, 401, way)
          const reason = vector.reason?.replaceAll('-', ' ')
          const challenge = read.headers['www-authenticate'] ?? ''
          t.match(challenge, /^Bearer realm="receiverd", error="invalid_token", error_description="[a-z ]+"$/, way)
          if (reason !== undefined) t.match(challenge, `error_description="${reason}"`, `${way}: the reason`)
        }
      }
    })
  }

  t.equal((await receiver.fetch('/system')).status, 200, 'the service still works')
  t.equal(receiver.pid, pid)
  const complaints = receiver.log.filter(line => /^<[0-3]>/.test(line))
  t.same(complaints, [], 'and has logged no error')
  const leaked = vectors.filter(({ token }) => token !== '' && receiver.log.some(line => line.includes(token)))
  t.same(leaked, [], 'nor any credential')
  t.equal(await receiver.stop(), 0)
})
