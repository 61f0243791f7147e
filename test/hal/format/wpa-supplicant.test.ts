import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decodeLossless } from '../../../hal/format/lossless.ts'
import {
  controlFolder,
  editWpa,
  readWpa,
  type WifiNetwork,
  whyNoCountry,
  whyNoNetwork,
} from '../../../hal/format/wpa-supplicant.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { needs } from '../../support/needs.ts'

const OFFICE = `network={
	ssid="Office"
	psk="correct horse"	# changed in March
	bssid_ignore=00:11:22:33:44:55
}
`
const EDUROAM = `network={
	ssid="eduroam"
	key_mgmt=WPA-EAP
	eap=PEAP
	identity="receiver@example.org"
	password="battery staple"
	priority=7
}
`
const REST = `# Wi-Fi of the building
ctrl_interface=DIR=/run/wpa_supplicant GROUP=netdev
fast_reauth=1
country=DE

cred={
	username="receiver"
	realm="example.org"
	password="tr0ub4dor"
}
blob-base64-ca={
TUlJ
}

`
const FILE = REST + OFFICE + EDUROAM

const network = (ssid: string, password = '', hidden = false): WifiNetwork => ({ ssid, password, hidden })
const hex = (text: string) => Buffer.from(text).toString('hex')
const block = (...lines: readonly string[]) => `network={\n${lines.map(line => `\t${line}\n`).join('')}}\n`
const names = (text: string) => readWpa(text).networks.map(({ ssid }) => ssid)

t.test('networks with a password, and open ones, are listed; a password is never read', async t => {
  const listed: readonly (readonly [body: readonly string[], network: WifiNetwork])[] = [
    [['ssid="Office"', 'psk="correct horse"'], network('Office', 'set')],
    [[' \tssid="Office"  # the "new" one', 'psk="correct horse"'], network('Office', 'set')],
    [['ssid="Office#1"', `psk=${'0f'.repeat(32)}`], network('Office#1', 'set')],
    [['ssid=4f6666696365', 'psk="with #1 "quotes""', 'key_mgmt=WPA-PSK SAE'], network('Office', 'set')],
    [['ssid=P"Gro\\xc3\\x9f\\t\\"a\\"\\\\\\e\\101"', 'key_mgmt=NONE'], network('Groß\t"a"\\\u{1b}A')],
    [['ssid="a"b"', 'key_mgmt=NONE'], network('a"b')],
    [[`ssid="Bob's "5G" #2"`, 'key_mgmt=NONE'], network(`Bob's "5G" #2`)],
    [['ssid="a"b"c#d"', 'key_mgmt=NONE'], network('a"b"c#d')],
    [['ssid="a" # x "b" # y', 'key_mgmt=NONE'], network('a')],
    [['ssid="Straße 🎬"', 'key_mgmt=NONE', 'scan_ssid=1'], network('Straße 🎬', '', true)],
    [['ssid="a"', 'sae_password="x"', 'key_mgmt=SAE', 'ieee80211w=2'], network('a', 'set')],
    [['ssid="a"', 'ssid="b"', 'key_mgmt=NONE'], network('b')],
    [['ssid="\u{202e}a"', 'key_mgmt=NONE', 'disabled=0'], network('\u{202e}a')],
  ]
  for (const [body, expected] of listed) t.strictSame(readWpa(block(...body)).networks, [expected], body.join('; '))
})

t.test('a network that is not understood is not listed', async t => {
  const bodies = [
    ['ssid="a"'],
    ['psk="correct horse"'],
    ['ssid=""', 'key_mgmt=NONE'],
    [`ssid="${'x'.repeat(33)}"`, 'key_mgmt=NONE'],
    ['ssid=ff00', 'key_mgmt=NONE'],
    ['ssid=abc', 'key_mgmt=NONE'],
    ['ssid=Office', 'key_mgmt=NONE'],
    ['ssid="a"', 'psk=ext:office'],
    ['ssid="a"', 'psk="a"bcdefg#hij"'],
    ['ssid="a#b', 'key_mgmt=NONE'],
    ['ssid="a"', 'key_mgmt=NONE', 'wep_key0="abcde"'],
    ['ssid="a"', 'key_mgmt=WPA-EAP', 'eap=TLS'],
    ['ssid="a"', 'key_mgmt=WPA-PSK WPA-EAP', 'psk="correct horse"'],
    ['ssid="a"', 'psk="correct horse"', 'identity="a"'],
    ['ssid="a"', 'key_mgmt=NONE', 'mode=2'],
    ['ssid="a"', 'key_mgmt=NONE', 'disabled=1'],
    ['ssid="a"', 'key_mgmt=OWE'],
  ]
  for (const body of bodies) {
    t.strictSame(readWpa(block(...body)).networks, [], body.join('; '))
    const edited = editWpa(block(...body), { country: '', networks: [network('b')] })
    t.ok(edited.includes(block(...body)), `kept: ${body.join('; ')}`)
  }
  t.strictSame(names(`cred={\n\tssid="a"\n\tkey_mgmt=NONE\n}\n`), [])
  t.strictSame(names('network={\n\tssid="a"\n\tkey_mgmt=NONE\n'), [], 'a block without an end')
})

t.test('a comment begins where it does for wpa_supplicant', { skip: needs('wpa_supplicant') }, async t => {
  const file = join(temporaryFolder(t), 'wpa.conf')
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
  for (const value of [
    `"Bob's "5G" #2"`,
    '"a"bcdefg#hij"',
    '"Office"  # the "new" one',
    '"a#b"',
    '"a"b"c#d"',
    '"a"b#c"',
    '"a"b"c#d',
    '"a" # x "b" # y',
    '"a" "# x',
    '"a#b',
    '61#62',
  ]) {
    const text = block(`ssid=${value}`, 'key_mgmt=NONE')
    writeFileSync(file, text)
    // It ends at once, because there is no such interface, and lists the networks before.
    const { stdout } = spawnSync('wpa_supplicant', ['-dd', '-i', 'none0', '-c', file], { encoding: 'utf8', env })
    const read = Array.from(stdout.matchAll(/^ +id=\d+ ssid='(.*)'$/gm), ([, name = '']) => name.replaceAll('\\"', '"'))
    t.strictSame(names(text), read, value)
  }
})

t.test('the order is that of the priorities, as wpa_supplicant takes them', async t => {
  const text = ['a', 'b', 'c', 'd']
    .map((name, at) => block(`ssid="${name}"`, 'key_mgmt=NONE', `priority=${[0, 3, -1, 3][at]}`))
    .join('')
  t.strictSame(names(text), ['b', 'd', 'a', 'c'])
  const next = { country: '', networks: ['c', 'a', 'new', 'b'].map(name => network(name)) }
  const edited = editWpa(text, next)
  t.strictSame(readWpa(edited), next)
  t.strictSame(
    Array.from(edited.matchAll(/ssid=(\S+)[^}]*?(?:priority=(\d+)\n)?}/g), ([, name, priority]) => [name, priority]),
    [
      ['"a"', '2'],
      ['"b"', undefined],
      ['"c"', '3'],
      [hex('new'), '1'],
    ],
  )
  t.equal(editWpa(edited, next), edited)
})

t.test('every byte that is not ours is kept', async t => {
  const joined = editWpa(FILE, { country: 'DE', networks: [network('Office', 'set')] })
  t.equal(joined, FILE, 'nothing to change')
  t.equal(editWpa(FILE, { country: 'DE', networks: [network('Office', 'correct horse')] }), FILE, 'the same password')
  t.equal(editWpa(FILE, { country: 'DE', networks: [] }), REST + EDUROAM)
  t.equal(
    editWpa(FILE, { country: 'DK', networks: [network('Office', 'set')] }),
    FILE.replace('country=DE\n\n', '\ncountry=DK\n'),
  )
  t.equal(editWpa(FILE, { country: '', networks: [network('Office', 'set')] }), FILE.replace('country=DE\n', ''))
  const raw = decodeLossless(Buffer.concat([Buffer.from('# \xff\xfe\n', 'latin1'), Buffer.from(FILE)]))
  t.equal(editWpa(raw, { country: 'DE', networks: [] }), raw.replace(OFFICE, ''))
})

t.test('the lines for each kind of network', async t => {
  const cases: readonly (readonly [network: WifiNetwork, lines: readonly string[]])[] = [
    [network('Guests'), ['key_mgmt=NONE']],
    [network('Guests', '', true), ['key_mgmt=NONE', 'scan_ssid=1']],
    [network('Straße "7" #\\ \u{202e}', 'a# b"c\\d'), ['psk="a# b"c\\d"', 'key_mgmt=WPA-PSK SAE', 'ieee80211w=1']],
    // wpa_passphrase(8) gives this key.
    [
      network('Office', 'a"b# c\\d'),
      [
        'psk=e9fb0351f5775cc945b0dc76a5691a1d82a2ab9a10ba6e4532fa08a0c298d837',
        `sae_password=${hex('a"b# c\\d')}`,
        'key_mgmt=WPA-PSK SAE',
        'ieee80211w=1',
      ],
    ],
    [network('a', 'AB'.repeat(32)), [`psk=${'AB'.repeat(32)}`]],
  ]
  for (const [one, lines] of cases) {
    const text = editWpa('', { country: 'DK', networks: [one] })
    t.equal(text, `ctrl_interface=/run/wpa_supplicant\ncountry=DK\n${block(`ssid=${hex(one.ssid)}`, ...lines)}`)
    t.strictSame(readWpa(text).networks, [{ ...one, password: one.password && 'set' }])
  }
})

t.test('a network that is there keeps what it has besides', async t => {
  const changed = (network: WifiNetwork) => editWpa(OFFICE, { country: '', networks: [network] })
  const kept = '\tssid="Office"\n'
  const [head, bssid] = ['ctrl_interface=/run/wpa_supplicant\n', '\tbssid_ignore=00:11:22:33:44:55\n']
  t.equal(
    changed(network('Office', 'battery staple')),
    `${head}network={\n${kept}${bssid}\tpsk="battery staple"\n\tkey_mgmt=WPA-PSK SAE\n\tieee80211w=1\n}\n`,
  )
  t.equal(changed(network('Office')), `${head}network={\n${kept}${bssid}\tkey_mgmt=NONE\n}\n`)
  t.equal(changed(network('Office', 'set', true)), head + OFFICE.replace('}', '\tscan_ssid=1\n}'))
  for (const [text, ssid] of [
    [OFFICE, 'Other'],
    [block('ssid="Open"', 'key_mgmt=NONE'), 'Open'],
  ] as const)
    t.throws(() => editWpa(text, { country: '', networks: [network(ssid, 'set')] }), { code: 'UNREADABLE' }, ssid)
})

t.test('of two blocks with one name, none stays behind; more than eight networks are kept', async t => {
  const twice = OFFICE + block('ssid="Office"', 'key_mgmt=NONE')
  t.strictSame(readWpa(twice).networks, [network('Office', 'set')])
  t.strictSame(names(editWpa(twice, { country: '', networks: [] })), [])
  const many = Array.from({ length: 10 }, (_, at) => block(`ssid="${at}"`, 'key_mgmt=NONE')).join('')
  t.equal(names(many).length, 8)
  t.match(editWpa(many, { country: '', networks: [] }), /ssid="8"[^}]*}\nnetwork={\n\tssid="9"/)
})

t.test('the country and the control socket', async t => {
  t.equal(readWpa('country=DE\ncountry=DK\n').country, 'DK')
  for (const text of ['', '#country=DE', 'country=de', 'country=', 'country=DEU']) t.equal(readWpa(text).country, '')
  t.equal(controlFolder(FILE), '/run/wpa_supplicant')
  t.equal(controlFolder('ctrl_interface=/var/run/wpa\n'), '/var/run/wpa')
  for (const text of ['', 'ctrl_interface=udp', '#ctrl_interface=/run/a']) t.equal(controlFolder(text), undefined)
})

t.test('a country takes the place of all that were there, also behind a block', async t => {
  const block = 'network={\n\tssid="a"\n\tkey_mgmt=NONE\n}\n'
  const text = editWpa(`country=US\n${block}country=\n`, { country: 'DE', networks: readWpa(block).networks })
  t.equal(readWpa(text).country, 'DE')
  t.strictSame(text.match(/^country=.*$/gm), ['country=DE'])
})

t.test('values that the API and the card accept', async t => {
  for (const password of ['', '12345678', ' '.repeat(63), 'AB'.repeat(32)])
    t.strictSame(whyNoNetwork({ ssid: 'a', password }), {})
  for (const password of ['1234567', 'x'.repeat(64), 'set', 'pässword', 'a\nbcdefghi', 'x'.repeat(65)])
    t.match(whyNoNetwork({ ssid: 'a', password }), { password: /^must be 8/ })
  for (const ssid of ['', 'x'.repeat(33), 'ß'.repeat(17)])
    t.match(whyNoNetwork({ ssid, password: '' }), { ssid: 'must be 1 to 32 bytes' })
  for (const country of ['', 'DE', 'GB', 'AQ', 'SS']) t.equal(whyNoCountry(country), undefined)
  for (const country of ['de', 'D', 'DEU', 'D\n', '12'])
    t.match(whyNoCountry(country), 'must be the two capital letters')
  t.equal(whyNoCountry('UK'), 'must be GB, because no country has the code UK')
  t.equal(readWpa('country=UK\n').country, 'UK', 'a file that has it is read')
})
