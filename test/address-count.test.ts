import t from 'tap'
import { AddressCount } from '../src/address-count.ts'

t.test('each address has its own limit, and gets back what it leaves', async t => {
  const count = new AddressCount(2)
  count.enter('192.0.2.1')
  count.enter('192.0.2.1')
  t.equal(count.hasRoom('192.0.2.1'), false)
  t.equal(count.hasRoom('192.0.2.2'), true)
  count.leave('192.0.2.1')
  t.equal(count.hasRoom('192.0.2.1'), true)
})
