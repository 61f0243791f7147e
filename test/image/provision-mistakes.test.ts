/** Mistakes in receiver.txt: nothing is taken, and its owner is told why. */
import t from 'tap'
import { whyNotValues } from '../../hal/settings/network/checks.ts'
import type { Interface } from '../../hal/settings/network/schema.ts'
import { Board } from './board.ts'

t.test('a mistake: nothing is taken, and it is reported without secrets', async t => {
  const cases: [string | Buffer, RegExp][] = [
    ['hostnme=lobby', /^line 1: "hostnme" is not a setting; use hostname, name, /m],
    ['$(id)=lobby', /^line 1: the text before the = is not a setting/m],
    ['\nlobby', /^line 2: has no =; write it as hostname=lobby$/m],
    ['hostname=a\nHOSTNAME=b', /^line 2: hostname is set twice$/m],
    ['hostname=-lobby', /^hostname: must be/m],
    ['hostname=lob by', /^hostname: must be/m],
    [`hostname=${'a.'.repeat(40)}a`, /^hostname: must be/m],
    [`name=${'é'.repeat(65)}`, /^name: must be at most 64/m],
    ['name=a\tb', /^name: must be/m],
    ['name=a\u0085b', /^name: must be/m],
    [`api-key=SECRET`, /^api-key: must be 22/m],
    [`api-key=${'SECRET'.repeat(30)}`, /^api-key: must be 22/m],
    [`api-key=SECRET$(id)SECRETSECRETSECRET`, /^api-key: must be 22/m],
    [`wifi-ssid=${'x'.repeat(33)}`, /^wifi-ssid: must be at most 32 bytes$/m],
    ['wifi-password=SECRETSECRET', /^wifi-ssid: missing;/m],
    ['wifi-ssid=a\nwifi-password=SECRET', /^wifi-password: must be 8/m],
    ['wifi-ssid=a\nwifi-password=SECRETSÉCRET', /^wifi-password: must be 8/m],
    ['wifi-ssid=a\nwifi-country=Germany', /^wifi-country: must be/m],
    ['gateway=192.0.2.1', /^gateway: only with an address$/m],
    ['address=192.0.2.300/24\nhostname=_', /^hostname: .*\naddress: must be/m],
    ['dns=192.0.2.1,dns.example', /^dns: must be/m],
    [`dns=${Array.from({ length: 9 }, (_, n) => `192.0.2.${n + 1}`).join()}`, /^dns: must not be more than 8/m],
    [Buffer.from('name=Stra\xdfe', 'latin1'), /^receiver\.txt is not UTF-8: save/m],
    [Buffer.from('hostname=lobby\n', 'utf16le'), /^receiver\.txt is not UTF-8: save/m],
    [`#${'x'.repeat(16_384)}\nhostname=lobby`, /^receiver\.txt is larger than 16384 bytes$/m],
  ]
  for (const [text, expected] of cases) {
    const board = new Board(t).insert(text)
    const before = board.files
    const { status, stderr } = board.boot()
    t.equal(status, 0)
    t.match(board.errors, expected)
    t.match(stderr, /^<4>receiver\.txt: /)
    t.notMatch(stderr + board.errors, 'SECRET')
    const { 'boot/firmware/receiver-errors.txt': _, ...after } = board.files
    t.same(after, before)
  }
})

t.test('the report goes when the mistake is gone, and is not written again while it stays', async t => {
  const board = new Board(t).insert('hostname=_')
  board.boot()
  board.boot()
  t.equal(board.read('mounts')?.trim().split('\n').length, 2)
  board.insert('hostname=lobby').boot()
  t.equal(board.read('/boot/firmware/receiver-errors.txt'), undefined)
  t.equal(await board.setting('hostname'), 'lobby')
})

t.test('of addresses, it accepts only what the API accepts', async t => {
  const taken = '192.0.2.10/24 10.0.0.0/31 10.0.0.1/31 10.0.0.1/32 223.255.255.1/8 172.16.5.255/16'.split(' ')
  const refused =
    '192.0.2.10 192.0.2.0/24 192.0.2.255/24 0.0.0.0/0 192.0.2.10/0 192.0.2.10/33 192.0.2.10/024 127.0.0.1/8 224.0.0.1/24 1.2.3/24 01.2.3.4/24 1.2.3.4.5/24 1e1.2.3.4/24 0x1.2.3.4/24 192.0.2.10/24/24 -1.2.3.4/24 192.0.2.10/'.split(
      ' ',
    )
  for (const address of [...taken, ...refused]) {
    const board = new Board(t).insert(`address=${address}`)
    board.boot()
    t.equal(board.errors === '', taken.includes(address), address)
  }
  const gateways: [string, string, boolean][] = [
    ['192.0.2.10/24', '192.0.2.1', true],
    ['192.0.2.10/24', '192.0.3.1', false],
    ['192.0.2.10/24', '192.0.2.10', false],
    ['192.0.2.10/24', '192.0.2.255', false],
    ['192.0.2.10/24', '192.0.2.0', false],
    ['10.0.0.0/31', '10.0.0.1', true],
    ['192.0.2.10/24', 'router', false],
  ]
  for (const [address, gateway, isTaken] of gateways) {
    const board = new Board(t).insert(`address=${address}\ngateway=${gateway}`)
    board.boot()
    t.equal(board.errors === '', isTaken, `${gateway} for ${address}`)
  }
  const values = [...taken.map(address => ({ address, gateway: '' })), { address: '10.0.0.0/31', gateway: '10.0.0.1' }]
  const unset: Interface = {
    present: true,
    mac: '',
    up: true,
    method: 'dhcp',
    address: '',
    gateway: '',
    dns: [],
    addresses: [],
  }
  for (const value of values) t.same(whyNotValues({ ...unset, ...value, method: 'static' }, unset), [], value.address)
})
