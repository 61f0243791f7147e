/** receiver.txt becomes what receiverd and the system read. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { ALL, Board, KEY } from './board.ts'

const TEMPLATE = readFileSync(join(REPOSITORY, 'build/image/receiver.txt'), 'utf8')
const WPA = '/etc/wpa_supplicant/wpa_supplicant-wlan0.conf'

t.test('the template that lies on the card sets nothing, and is not written', async t => {
  const board = new Board(t).insert(TEMPLATE)
  const before = board.files
  t.equal(board.boot().status, 0)
  t.same(board.files, before)
  t.equal(board.read('mounts'), undefined)
})

t.test('every setting of the template is one', async t => {
  const board = new Board(t).insert(TEMPLATE.replace(/^#([a-z-]+=)/gm, '$1'))
  t.match(board.boot().stderr, /taken: hostname name wifi-ssid wifi-country address gateway dns\n/)
})

t.test('all settings are what the API shows', async t => {
  const board = new Board(t).insert(ALL)
  t.match(board.boot(), { status: 0 })
  t.equal(await board.setting('hostname'), 'lobby')
  t.equal(board.read('/proc/sys/kernel/hostname'), 'lobby\n')
  t.match(board.read('/etc/hosts'), /^127\.0\.1\.1\slobby$/m)
  t.equal(await board.setting('deviceName'), 'Lobby')
  t.match(await board.setting('network'), {
    wlan0: { method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1', dns: ['192.0.2.1', '192.0.2.2'] },
    eth0: { method: 'dhcp' },
  })
  t.equal(board.files['etc/credstore/receiverd.api-key'], `100600 ${KEY}\n`)
  t.equal(
    board.files[WPA.slice(1)],
    `100600 # From receiver.txt.
country=DE
network={
	ssid=${Buffer.from('Guests').toString('hex')}
	psk="correct horse"
	key_mgmt=WPA-PSK SAE
	ieee80211w=1
	scan_ssid=1
}
`,
  )
})

t.test('without Wi-Fi the address is that of the cable; name servers alone leave the rest to DHCP', async t => {
  const board = new Board(t).insert('address=198.51.100.7/25\ngateway=198.51.100.1\n')
  board.boot()
  t.match(await board.setting('network'), { eth0: { method: 'static', address: '198.51.100.7/25', dns: [] } })
  board.insert('dns=198.51.100.2').boot()
  t.match(await board.setting('network'), { eth0: { method: 'dhcp', address: '', dns: ['198.51.100.2'] } })
})

t.test('a setting is taken once: what the API changes later stays', async t => {
  const board = new Board(t).insert(ALL)
  board.boot()
  const left = board.read('/boot/firmware/receiver.txt') ?? ''
  t.equal(left, ALL.replace(/^/gm, '#').replace(/#$/, '').replace(KEY, '').replace('correct horse', ''))
  t.same(board.read('mounts')?.trim().split('\n'), [
    `-o remount,rw ${board.root}/boot/firmware`,
    `-o remount,ro ${board.root}/boot/firmware`,
  ])
  writeFileSync(join(board.root, 'etc/hostname'), 'changed\n')
  const before = board.files
  t.equal(board.boot().status, 0)
  t.same(board.files, before)
})

t.test('a new API key replaces the one of the device', async t => {
  const board = new Board(t).insert(`api-key=${KEY}`)
  const state = join(board.root, 'var/lib/receiverd')
  writeFileSync(join(state, 'api-key'), 'the key so far\n')
  writeFileSync(join(state, 'api-key.unused'), '')
  board.boot()
  t.same(readdirSync(state), [])
})

t.test('as editors write it: byte-order mark, CRLF, no last line end, quotes, blanks, other spellings', async t => {
  const lines = [
    '\ufeff API_KEY = "x"',
    `Api-Key= '${KEY}'`,
    ' HostName =LOBBY',
    '  # a comment',
    'name=" Lobby "',
    'wifi_ssid=""',
  ]
  const board = new Board(t).insert(lines.slice(1).join('\r\n').replace(/^/, '\ufeff'))
  t.match(board.boot(), { status: 0, stderr: 'receiver.txt: taken: api-key hostname name\n' })
  t.equal(await board.setting('hostname'), 'lobby')
  t.equal(await board.setting('deviceName'), ' Lobby ')
  t.equal(board.read('/etc/credstore/receiverd.api-key'), `${KEY}\n`)
  t.equal(
    board.read('/boot/firmware/receiver.txt'),
    '#Api-Key=\r\n# HostName =LOBBY\r\n  # a comment\r\n#name=" Lobby "\r\n#wifi_ssid=""',
  )
})

t.test('no value is evaluated, and every one arrives as it is', async t => {
  const hostile = [
    '$(touch hit)',
    '`touch hit`',
    '"; touch hit; "',
    "a'; touch hit; 'b",
    '$IFS$HOME',
    '* ? [a-z]',
    'a\\tb\\\\c\\',
    'x & y | z',
    '# not a comment',
    '100 %s %n',
    '-n -e',
    'a"b"c',
    'Straße 5, 東京',
  ]
  for (const value of hostile) {
    const board = new Board(t).insert(`name="${value}"\nwifi-ssid="${value}"\n`)
    t.match(board.boot(), { status: 0, stderr: /taken/ }, value)
    t.equal(await board.setting('deviceName'), value)
    const ssid = /^\tssid=([0-9a-f]*)$/m.exec(board.read(WPA) ?? '')?.[1] ?? ''
    t.equal(Buffer.from(ssid, 'hex').toString(), value)
    t.match(board.read(WPA), 'key_mgmt=NONE')
    t.notOk(existsSync(join(board.root, 'hit')) || existsSync('hit'), 'no command was run')
  }
  for (const password of ['"quoted" $(id)', 'back\\slash#']) {
    const board = new Board(t).insert(`wifi-ssid=a\nwifi-password=${password}\n`)
    board.boot()
    t.ok(board.read(WPA)?.includes(`psk="${password}"\n`), password)
  }
  const raw = 'AB'.repeat(32)
  const board = new Board(t).insert(`wifi-ssid=a\nwifi-password=${raw}\n`)
  board.boot()
  t.match(board.read(WPA), `\n\tpsk=${raw}\n`)
})
