/** Mistakes in receiver.txt: nothing is taken, and its owner is told why. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { TestIssuer } from '../../support/issuer.ts'
import { Board, KEY, TEXT } from './board.ts'

t.test('a mistake: nothing is taken, and it is reported without secrets', async t => {
  const cases: [string | Buffer, RegExp][] = [
    ['hostnme=lobby', /^line 1: "hostnme" is not a setting; use hostname, name, .* or dns$/m],
    ['$(id)=lobby', /^line 1: the text before the = is not a setting/m],
    ['\nlobby', /^line 2: has no =; write it as hostname=lobby$/m],
    ['hostname=a\nHOSTNAME=b', /^line 2: hostname is set twice$/m],
    ['hostname=-lobby', /^line 1, hostname: invalid value; expected: Lower-case letters/m],
    ['hostname=lob by', /^line 1, hostname: invalid value/m],
    [`hostname=${'a.'.repeat(40)}a`, /^line 1, hostname: must not have more than 64 characters$/m],
    [`name=${'é'.repeat(65)}`, /^line 1, name: must not have more than 64 characters$/m],
    ['name=a\tb', /^line 1, name: invalid value; expected: Name shown to people/m],
    ['name=a\u0085b', /^line 1, name: invalid value/m],
    ['api-key=SECRET', /^line 1, api-key: must be 22/m],
    [`api-key=${'SECRET'.repeat(30)}`, /^line 1, api-key: must be 22/m],
    ['api-key=SECRETSECRETSECRETSECRET', /^line 1, api-key: must have at least 12 different characters$/m],
    ['api-key=SECRET$(id)SECRETSECRETSECRET', /^line 1, api-key: must be 22/m],
    [`wifi-ssid=${'x'.repeat(33)}`, /^line 1, wifi-ssid: must be 1 to 32 bytes$/m],
    ['wifi-password=SECRETSECRET', /^wifi-ssid: missing; set it as well, even if it was taken before$/m],
    ['wifi-ssid=a\nwifi-password=SECRET', /^line 2, wifi-password: must be 8/m],
    ['wifi-ssid=a\nwifi-password=SECRETSÉCRET', /^line 2, wifi-password: must be 8/m],
    ['wifi-ssid=a\nwifi-country=Germany', /^line 2, wifi-country: must be/m],
    ['gateway=192.0.2.1', /^line 1, gateway: must be empty unless the method is static$/m],
    ['address=192.0.2.300/24\nhostname=_', /^line 2, hostname: .*\nline 1, address: must be/m],
    ['address=192.0.2.10', /^line 1, address: must be an address with its prefix length/m],
    ['address=192.0.2.10/24\ngateway=192.0.3.1', /^line 2, gateway: not in the network of 192\.0\.2\.10\/24$/m],
    ['dns=192.0.2.1,dns.example', /^line 1, dns: must be an IPv4 or IPv6 address$/m],
    [
      `dns=${Array.from({ length: 9 }, (_, n) => `192.0.2.${n + 1}`).join()}`,
      /^line 1, dns: must not have more than 8/m,
    ],
    [Buffer.from('name=Stra\xdfe', 'latin1'), /^receiver\.txt is not UTF-8: save/m],
    [Buffer.from('hostname=lobby\n', 'utf16le'), /^receiver\.txt is not UTF-8: save/m],
    [`#${'x'.repeat(16_384)}\nhostname=lobby`, /^receiver\.txt: the file is larger than 16 KiB$/m],
  ]
  for (const [text, expected] of cases) {
    const board = new Board(t)
    await board.boot()
    const before = board.insert(text).files
    const { log } = await board.boot()
    t.match(board.errors, expected)
    t.match(board.errors, /^Not used, because of:\n\n/)
    t.match(log.at(-1), /^warning: receiver\.txt: /)
    t.notMatch(log + board.errors, 'SECRET')
    const { 'boot/firmware/receiver-errors.txt': _, ...after } = board.files
    t.same(after, before)
  }
})

t.test('a mistake in an issuer: nothing is taken, and it is said what would be', async t => {
  const { publicKey } = new TestIssuer('office')
  const valid = { publicKey, roles: ['admin:r'] }
  const json = (more: object) => JSON.stringify({ ...valid, ...more })
  const cases: [file: string, text: string, expected: RegExp][] = [
    ['office.json', '{', /^issuers\/office\.json: the file is not valid: not JSON$/m],
    ['office.json', '', /^issuers\/office\.json: the file is not valid: not JSON$/m],
    [
      'office.json',
      json({ publicKey: publicKey.replace('PUBLIC', 'PRIVATE') }),
      /office\.json: \/publicKey: must be an Ed/,
    ],
    ['office.json', json({ roles: ['root'] }), /^issuers\/office\.json: \/roles\/0: must be/m],
    ['office.json', JSON.stringify({ publicKey }), /^issuers\/office\.json: .*roles/m],
    ['office.json', json({ role: 'admin:r' }), /^issuers\/office\.json: \/role: /m],
    ['office.json', json({ maxAgeS: 59 }), /^issuers\/office\.json: \/maxAgeS: /m],
    ['office.json', `${' '.repeat(8_192)}${json({})}`, /^issuers\/office\.json: the file is larger than 8 KiB$/m],
    ['Office.json', json({}), /^issuers: "Office\.json" must be called NAME\.json, where NAME is 1 to 32 characters/m],
    ['office.json.txt', json({}), /^issuers: "office\.json\.txt" must be called NAME\.json/m],
    ['office.pem', publicKey, /^issuers: "office\.pem" must be called NAME\.json/m],
  ]
  for (const [file, text, expected] of cases) {
    const board = new Board(t)
    await board.boot()
    const before = board.insert('name=Not taken\n').insertIssuer('valid.json', json({})).insertIssuer(file, text).files
    const { log } = await board.boot()
    t.match(board.errors, expected)
    t.match(log.at(-1), /^warning: receiver\.txt: issuers/)
    const { 'boot/firmware/receiver-errors.txt': _, ...after } = board.files
    t.same(after, before, `${file} ${text}`)
  }
})

t.test('more issuers than a device can have, of one card or of several', async t => {
  const { publicKey } = new TestIssuer('office')
  const text = JSON.stringify({ publicKey, roles: ['admin:r'] })
  const board = new Board(t)
  for (let n = 0; n < 17; n++) board.insertIssuer(`office-${n}.json`, text)
  await board.insert('name=Not taken\n').boot()
  t.match(board.errors, /^issuers: a device has at most 16 issuers/m)
  t.strictSame(await board.issuers(), {})
  t.not(await board.setting('deviceName'), 'Not taken')

  rmSync(join(board.root, 'boot/firmware/issuers/office-16.json'))
  await board.boot({}, async (_, issuers) => {
    for (let n = 0; n < 16; n++) await issuers.remove(`office-${n}`, () => undefined)
  })
  t.equal(board.errors, '')
  await board.insertIssuer('one-more.json', text).boot()
  t.match(board.errors, /^issuers: a device has at most 16 issuers/m, 'a factory reset brings the others back')
  t.strictSame(await board.issuers(), {})
})

t.test('a key that the device had before is refused: its tokens would come back', async t => {
  const board = new Board(t).insert(`api-key=${KEY}`)
  await board.boot()
  await board.insert(`api-key=${KEY.toUpperCase()}`).boot()
  const { key } = await board.insert(`api-key=${KEY}\nname=Changed`).boot()
  t.equal(key, KEY.toUpperCase())
  t.match(board.errors, 'line 1, api-key: must not be a key that this device had before')
  t.not(await board.setting('deviceName'), 'Changed')
})

t.test('the report goes when the mistake is gone, and is not written again while it stays', async t => {
  const board = new Board(t).insert('hostname=_')
  await board.boot()
  await board.boot()
  t.equal(board.read('mounts')?.trim().split('\n').length, 2)
  await board.insert('hostname=lobby').boot()
  t.equal(board.errors, '')
  t.equal(await board.setting('hostname'), 'lobby')
  t.equal(board.read(TEXT), '#hostname=lobby')
})

t.test('an interface that is not there', async t => {
  const board = new Board(t)
  rmSync(join(board.root, 'sys/class/net/wlan0'))
  await board.insert('wifi-ssid=Guests\naddress=192.0.2.10/24\n').boot()
  t.match(board.errors, 'line 2, address: wlan0: no such interface; this device has eth0\n')
})

t.test('of addresses, it takes what the API takes', async t => {
  const addresses = [
    '192.0.2.10/24',
    '240.0.0.10/24',
    '2001:db8::10/64',
    '10.0.0.0/31',
    '192.0.2.0/24',
    '127.0.0.1/8',
    '1.2.3/24',
  ]
  for (const address of addresses) {
    const static_ = { method: 'static', address, gateway: '', dns: [] }
    const refused = await new Board(t)
      .change(store => store.patch({ network: { eth0: static_ } }, () => undefined))
      .then(
        () => undefined,
        ({ errors: [{ detail }] }) => detail,
      )
    const board = new Board(t).insert(`address=${address}`)
    await board.boot()
    t.equal(board.errors.includes(`line 1, address: ${refused}\n`), refused !== undefined, address)
    t.equal(board.errors === '', refused === undefined, address)
  }
})
