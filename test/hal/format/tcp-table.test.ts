import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import t from 'tap'
import { socketsOf } from '../../../hal/format/tcp-table.ts'
import { eventually } from '../../support/eventually.ts'

const row = (local: string, peer: string, state: string, waiting = '00000000', inode = 4711) =>
  `   0: ${local} ${peer} ${state} 00000000:${waiting} 02:00001730 00000000   993        0 ${inode} 1 0000000000000000`

const ANY6 = '00000000000000000000000000000000'

t.test('the sockets of a port', async t => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    row('00000000:1B58', '00000000:0000', '0A', '00000002'),
    row('0100007F:1B58', '0700A8C0:C001', '01', '0001E0D7'),
    row('0100007F:1B58', '0A00A8C0:C001', '01', '0001E0D7', 0),
    row('0100007F:1B58', '0800A8C0:C001', '06'),
    row('0100007F:1B59', '0900A8C0:C001', '01'),
    row('0100007F:1B5A', '0900A8C0:C001', '01'),
    row(`${ANY6}:1B58`, '0000000000000000FFFF0000070AA8C0:C001', '01'),
    row(`${ANY6}:1B58`, 'B80D0120000000000000000009000000:C001', '01'),
    row(`${ANY6}:1B58`, '00000000000000000000000001000000:C001', '01'),
    '',
  ].join('\n')
  const established = { port: 7000, state: 'established', inode: 4711, waiting: 0 }
  t.strictSame(socketsOf(table, [7000, 7001]), [
    { port: 7000, state: 'listening', peer: '0.0.0.0', inode: 4711, waiting: 2 },
    { ...established, peer: '192.168.0.7', waiting: 0x1e0d7 },
    { ...established, port: 7001, peer: '192.168.0.9' },
    { ...established, peer: '192.168.10.7' },
    { ...established, peer: '2001:db8::9' },
    { ...established, peer: '::1' },
  ])
  const udp = row(`${ANY6}:1B59`, `${ANY6}:0000`, '07')
  t.strictSame(socketsOf(udp, [7001]), [{ port: 7001, state: 'bound', peer: '::', inode: 4711, waiting: 0 }])
  t.strictSame(socketsOf('', [7000]), [])
})

t.test('the tables of this kernel', async t => {
  for (const [host, file] of [
    ['127.0.0.1', '/proc/net/tcp'],
    ['::1', '/proc/net/tcp6'],
  ] as const) {
    const server = createServer(socket => socket.pause()).listen(0, host)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = connect(port, host)
    await once(client, 'connect')
    client.write('unread')
    // A client of another test, whose server had the same port before, may connect here.
    const unread = (port = 0) => socketsOf(readFileSync(file, 'utf8'), [port]).filter(({ waiting }) => waiting === 6)
    await eventually(() => unread(port).length > 0)
    t.match(unread(port), [{ port, state: 'established', peer: host, inode: /^[1-9]\d*$/, waiting: 6 }])
    t.equal(unread(port).length, 1)
    t.equal(unread(client.localPort).length, 0, 'the other end is another socket')
    client.destroy()
    server.close()
  }
})
