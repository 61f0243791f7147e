import { test } from 'tap'
import {
  isLinkLocal6,
  isWithin,
  parseAddress,
  parseCidr,
  prefixOfMask,
  whyNoHost,
  whyNoHostOf,
} from '../../../hal/format/ip.ts'

const address = (text: string) => {
  const parsed = parseAddress(text)
  if (!parsed) throw new Error(`no address: ${text}`)
  return parsed
}
const cidr = (text: string) => {
  const parsed = parseCidr(text)
  if (!parsed) throw new Error(`no network: ${text}`)
  return parsed
}

test('addresses are read as numbers', t => {
  const cases: readonly (readonly [text: string, bits: bigint])[] = [
    ['0.0.0.0', 0n],
    ['192.0.2.10', 0xc000020an],
    ['255.255.255.255', 0xffffffffn],
    ['::', 0n],
    ['::1', 1n],
    ['1::', 1n << 112n],
    ['2001:db8::10', 0x20010db8000000000000000000000010n],
    ['2001:DB8:0:0:0:0:0:10', 0x20010db8000000000000000000000010n],
    ['1:2:3:4:5:6:7:8', 0x00010002000300040005000600070008n],
    ['1::8', 0x00010000000000000000000000000008n],
    ['64:ff9b::192.0.2.33', 0x0064ff9b0000000000000000c0000221n],
    ['1:2:3:4:5:6:192.0.2.33', 0x000100020003000400050006c0000221n],
  ]
  for (const [text, bits] of cases) t.equal(parseAddress(text)?.bits, bits, text)
  for (const text of ['', '1', '1.2.3', '256.1.1.1', '01.2.3.4', '1.2.3.4 ', ':::', '1::2::3', 'fe80::1%eth0', '[::1]'])
    t.equal(parseAddress(text), undefined, `"${text}"`)
  t.end()
})

test('a prefix length has no sign, no leading zero, and no more bits than the address', t => {
  for (const [text, prefix] of [
    ['192.0.2.10/0', 0],
    ['192.0.2.10/32', 32],
    ['::1/128', 128],
  ] as const)
    t.equal(parseCidr(text)?.prefix, prefix, text)
  const bad = ['192.0.2.1', '192.0.2.1/', '192.0.2.1/33', '192.0.2.1/08', '192.0.2.1/+8', '192.0.2.1/-1', '/24', '']
  for (const text of [...bad, '::1/129', '::1/1e1', '192.0.2.1/24/24', '192.0.2.1/255.255.255.0', '192.0.2.1/ 8'])
    t.equal(parseCidr(text), undefined, `"${text}"`)
  t.end()
})

test('the prefix length of a netmask is the number of its ones', t => {
  for (const [mask, prefix] of [
    ['255.255.255.0', 24],
    ['255.255.254.0', 23],
    ['255.255.255.255', 32],
    ['0.0.0.0', 0],
    ['', 0],
  ] as const)
    t.equal(prefixOfMask(mask), prefix, mask)
  t.end()
})

test('which addresses are in a network', t => {
  const cases: readonly (readonly [network: string, address: string, is: boolean])[] = [
    ['192.0.2.10/24', '192.0.2.255', true],
    ['192.0.2.10/24', '192.0.3.1', false],
    ['192.0.2.10/23', '192.0.3.1', true],
    ['192.0.2.10/0', '8.8.8.8', true],
    ['192.0.2.10/32', '192.0.2.10', true],
    ['192.0.2.10/32', '192.0.2.11', false],
    ['2001:db8::1/64', '2001:db8::ffff:1', true],
    ['2001:db8::1/64', '2001:db8:0:1::1', false],
    ['2001:db8::1/127', '2001:db8::', true],
    ['0.0.0.0/0', '::1', false],
    ['::/0', '192.0.2.1', false],
  ]
  for (const [network, other, is] of cases)
    t.equal(isWithin(cidr(network), address(other)), is, `${other} in ${network}`)
  t.ok(isLinkLocal6(address('febf::1')))
  t.notOk(isLinkLocal6(address('fec0::1')))
  t.notOk(isLinkLocal6(address('169.254.0.1')))
  t.end()
})

test('which addresses cannot belong to a host', t => {
  const cases: readonly (readonly [address: string, why: string | undefined])[] = [
    ['0.0.0.0', 'an unspecified address'],
    ['0.1.2.3', 'an unspecified address'],
    ['1.0.0.1', undefined],
    ['126.255.255.255', undefined],
    ['127.0.0.1', 'a loopback address'],
    ['127.255.255.255', 'a loopback address'],
    ['128.0.0.1', undefined],
    ['223.255.255.254', undefined],
    ['224.0.0.1', 'a multicast address'],
    ['239.255.255.255', 'a multicast address'],
    ['255.255.255.255', 'the broadcast address'],
    ['::', 'an unspecified address'],
    ['::1', 'a loopback address'],
    ['::2', undefined],
    ['fe80::1', undefined],
    ['ff02::1', 'a multicast address'],
    ['::ffff:127.0.0.1', 'an IPv4-mapped IPv6 address'],
  ]
  for (const [text, why] of cases) t.equal(whyNoHost(address(text)), why, text)
  t.end()
})

test('which addresses of a network cannot belong to a host', t => {
  const cases: readonly (readonly [network: string, address: string, why: RegExp | undefined])[] = [
    ['192.0.2.10/24', '192.0.2.0', /network itself/],
    ['192.0.2.10/24', '192.0.2.255', /broadcast/],
    ['192.0.2.10/23', '192.0.3.255', /broadcast/],
    ['192.0.2.10/23', '192.0.2.255', undefined],
    ['192.0.2.10/23', '192.0.3.0', undefined],
    ['192.0.2.10/24', '198.51.100.0', undefined],
    ['192.0.2.10/30', '192.0.2.11', /broadcast/],
    ['192.0.2.10/31', '192.0.2.10', undefined],
    ['192.0.2.10/31', '192.0.2.11', undefined],
    ['192.0.2.10/32', '192.0.2.10', undefined],
    ['2001:db8::10/64', '2001:db8::', /anycast/],
    ['2001:db8::10/64', '2001:db8::ffff:ffff:ffff:ffff', undefined],
    ['2001:db8::10/126', '2001:db8::10', /anycast/],
    ['2001:db8::10/127', '2001:db8::10', undefined],
    ['2001:db8::10/128', '2001:db8::10', undefined],
  ]
  for (const [network, text, why] of cases) {
    const found = whyNoHostOf(cidr(network), address(text))
    if (why) t.match(found, why, `${text} of ${network}`)
    else t.equal(found, undefined, `${text} of ${network}`)
  }
  t.end()
})
