import t from 'tap'
import { clientAt, isReachable } from '../../src/http/address.ts'

t.test('an address is counted by itself, or by its network if it can be chosen freely', async t => {
  const cases = [
    ['192.0.2.7', '192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:ffff::1', '2001:db8:0:0:ffff::1', '2001:db8:0:0::/64'],
    ['2001::3:0:1:0:0', '2001::3:0:1:0:0', '2001:0:0:3::/64'],
    ['::1', '::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80::1', 'fe80::1'],
    ['fe80::2%eth0', 'fe80::2', 'fe80::2'],
    ['febf::1%wlan0', 'febf::1', 'febf::1'],
    ['fec0::1', 'fec0::1', 'fec0:0:0:0::/64'],
    ['fc00::1', 'fc00::1', 'fc00::1'],
    ['fd12:3456:789a::42', 'fd12:3456:789a::42', 'fd12:3456:789a::42'],
    ['fe00::1', 'fe00::1', 'fe00:0:0:0::/64'],
    ['fe8::1', 'fe8::1', 'fe8:0:0:0::/64'],
    [undefined, 'local', 'local'],
  ] as const
  for (const [remote, address, network] of cases) t.strictSame(clientAt(remote), { address, network }, `${remote}`)
})

t.test('only the loopback and Unix sockets cannot be reached from the network', async t => {
  for (const url of [
    'http://[::]:8080',
    'http://0.0.0.0:80',
    'http://192.0.2.7',
    'http://[fd12::1]:80',
    'http://panel.example',
  ])
    t.ok(isReachable(url), url)
  for (const url of [
    'http://127.0.0.2:8080',
    'http://[::1]:80',
    '/run/receiverd.sock',
    'a socket of the service manager',
  ])
    t.notOk(isReachable(url), url)
})
