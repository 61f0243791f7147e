import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { TimingServer } from './timing.ts'

t.test('a request is answered with its own transmit time, and twice the present time', async t => {
  const server = await TimingServer.open('127.0.0.1')
  const socket = createSocket('udp4')
  t.teardown(() => {
    server.close()
    socket.close()
  })
  const request = Buffer.alloc(32)
  request.set([0x80, 0xd2, 0, 7])
  request.write('sent now', 24)
  socket.send(request, server.port, '127.0.0.1')
  const [packet] = (await once(socket, 'message')) as [Buffer]
  t.equal(packet.length, 32)
  t.same([...packet.subarray(0, 8)], [0x80, 0xd3, 0, 7, 0, 0, 0, 0])
  t.equal(packet.toString('latin1', 8, 16), 'sent now')
  t.equal(packet.readBigUInt64BE(16), packet.readBigUInt64BE(24))
  const seconds = packet.readUInt32BE(16) - 2_208_988_800
  t.ok(seconds > 0 && seconds < Date.now() / 1_000, 'since the device was switched on, not since 1970')
  t.equal(server.requests, 1)

  server.mute()
  socket.send(request, server.port, '127.0.0.1')
  await eventually(() => server.requests === 2)
  await t.rejects(once(socket, 'message', { signal: AbortSignal.timeout(200) }))
})
