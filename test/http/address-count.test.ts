import t from 'tap'
import { AddressCount, networkOf } from '../../src/http/address-count.ts'

t.test('an address stands for its network', async t => {
  const cases = [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['2001:db8:0:0:ffff::1', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['local', 'local'],
  ] as const
  for (const [address, network] of cases) t.equal(networkOf(address), network, address)
})

t.test('each address has its own bound, and gets back what it leaves', async t => {
  const count = new AddressCount(2)
  count.enter('192.0.2.1')
  count.enter('192.0.2.1')
  t.equal(count.hasRoom('192.0.2.1'), false)
  t.equal(count.hasRoom('192.0.2.2'), true)
  count.leave('192.0.2.1')
  t.equal(count.hasRoom('192.0.2.1'), true)
})
