import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'

const HEADER_BYTES = 12
/** The bytes after the name in a question (RFC 1035 §4.1.2): type A, class IN. */
const QUESTION_A = Buffer.from([0, 1, 0, 1])

/** A name server on the host's loopback, which QEMU's network calls 10.0.2.2. It knows one name, which has one IPv4 address. */
export async function startNameServer(t: Test, name: string, address: string): Promise<void> {
  const labels = name.split('.').map(label => Buffer.from(`${String.fromCharCode(label.length)}${label}`))
  const known = Buffer.concat([...labels, Buffer.from([0]), QUESTION_A])
  // The name of the question again, a time to live of a minute, four bytes.
  const answer = Buffer.from([0xc0, HEADER_BYTES, ...QUESTION_A, 0, 0, 0, 60, 0, 4, ...address.split('.').map(Number)])
  const socket = createSocket('udp4')
  socket.on('message', (query, client) => {
    const end = query.indexOf(0, HEADER_BYTES) + 1 + QUESTION_A.length
    const question = query.subarray(HEADER_BYTES, end)
    const answers = question.equals(known) ? [answer] : []
    // A response; recursion is available.
    const flags = Buffer.from([0x81, 0x80, 0, 1, 0, answers.length, 0, 0, 0, 0])
    socket.send(Buffer.concat([query.subarray(0, 2), flags, question, ...answers]), client.port, client.address)
  })
  socket.bind(53, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => new Promise<void>(resolve => socket.close(() => resolve())))
}
