/** receiver.txt becomes the configuration of the device. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../../build/bundle-file.ts'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../../hal/files/kernel.ts'
import { MAX_NETWORKS } from '../../../hal/format/wpa-supplicant.ts'
import { System } from '../../../hal/os/system.ts'
import { CardTaker } from '../../../src/system/card/card.ts'
import { remember } from '../../../src/system/card/memory.ts'
import { orderReset } from '../../../src/system/factory-reset.ts'
import type { SystemStore } from '../../../src/system/store.ts'
import { systemError } from '../../hal/support/file-system.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { TestIssuer } from '../../support/issuer.ts'
import { ALL, Board, KEY, SCRIPT, TEXT, WIFI, WPA } from './board.ts'

const TEMPLATE = readFileSync(join(REPOSITORY, 'build/image/receiver.txt'), 'utf8')
const LEFT = ALL.replace(/^/gm, '#').replace(/#$/, '').replace(KEY, '').replace('correct horse', '')

t.test('the template that lies on the card sets nothing, and is not written', async t => {
  const board = new Board(t).insert(TEMPLATE)
  await board.boot()
  t.equal(board.read(TEXT), TEMPLATE)
  t.equal(board.read('mounts'), undefined)
})

t.test('every setting of the template is one', async t => {
  const board = new Board(t).insert(TEMPLATE.replace(/^#([a-z-]+=)/gm, '$1'))
  const { log } = await board.boot()
  t.match(log.at(-1), /taken: hostname, name, wifi-ssid, wifi-country, address, gateway, dns$/)
})

t.test('UK is taken for the code of the United Kingdom', async t => {
  const board = new Board(t).insert(ALL.replace('=de\n', '=uk\n'))
  await board.boot()
  t.match(await board.setting('wifi'), { country: 'GB' })
})

t.test('all settings are what the API shows', async t => {
  const board = new Board(t).insert(ALL)
  const { log, key } = await board.boot()
  t.same(
    log.filter(line => /^(warning|error)/.test(line)),
    [],
  )
  t.notMatch(log.join(), /correct horse|0123456789/)
  t.equal(key, KEY)
  t.equal(await board.setting('hostname'), 'lobby')
  t.equal(board.read('/proc/sys/kernel/hostname'), 'lobby\n')
  t.match(board.read('/etc/hosts'), /^127\.0\.1\.1\slobby$/m)
  t.equal(await board.setting('deviceName'), 'Lobby')
  t.match(await board.setting('network'), {
    wlan0: { method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1', dns: ['192.0.2.1', '192.0.2.2'] },
    eth0: { method: 'dhcp' },
  })
  t.equal(
    board.files[WPA.slice(1)],
    `100600 ctrl_interface=/run/wpa_supplicant
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

t.test('while the data partition is away, it is taken, and stays on the card', async t => {
  const board = new Board(t).insert(ALL)
  writeFileSync(join(board.root, 'run/receiver-without-data'), '')
  const { key } = await board.boot()
  t.equal(key, KEY)
  t.equal(await board.setting('deviceName'), 'Lobby')
  t.equal(board.read(TEXT), ALL)
})

t.test('without Wi-Fi the address is that of the cable; a part of it changes that part', async t => {
  const board = new Board(t).insert('address=198.51.100.7/25\ngateway=198.51.100.1\n')
  await board.boot()
  t.match(await board.setting('network'), { eth0: { method: 'static', address: '198.51.100.7/25', dns: [] } })
  await board.insert('dns=198.51.100.2').boot()
  const address = '198.51.100.7/25'
  t.match(await board.setting('network'), { eth0: { method: 'static', address, dns: ['198.51.100.2'] } })
  await board.insert('address=DHCP').boot()
  t.match(await board.setting('network'), { eth0: { method: 'dhcp', address: '', gateway: '', dns: [] } })
})

t.test('a setting is taken once: what the API changes later stays', async t => {
  const board = new Board(t).insert(ALL)
  await board.boot()
  t.equal(board.read(TEXT), LEFT)
  t.same(board.read('mounts')?.trim().split('\n'), [
    `-o remount,rw ${board.root}/boot/firmware`,
    `-o remount,ro ${board.root}/boot/firmware`,
  ])
  await board.change(store => store.patch({ hostname: 'changed' }, () => undefined))
  const before = board.files
  await board.boot()
  t.same(board.files, before)
})

t.test('the partition is read-only again also if the script is killed', async t => {
  for (let script = 1, isCut = true; isCut; script++) {
    const board = new Board(t).insert(ALL)
    board.cuts = 'script'
    isCut = (await board.boot({ script })).isCut
    t.notMatch(board.read('mounts')?.trim(), /remount,rw \S+$/, `killed at step ${script}`)
  }
})

t.test(
  'asked to end, the script outlasts the program that writes: until then, the kernel refuses read-only',
  async t => {
    const [root, stubs] = [temporaryFolder(t), temporaryFolder(t)]
    const write = (path: string, text: string) => {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text, { mode: 0o755 })
    }
    for (const path of ['card/receiver.txt', 'run/receiverd/card/replaced/receiver.txt']) write(join(root, path), 'x\n')
    write(join(root, 'run/receiverd/card/folder'), '/card\n')
    write(join(stubs, 'findmnt'), '#!/bin/sh\necho ro\n')
    write(join(stubs, 'mount'), '#!/bin/sh\n')
    write(join(stubs, 'shred'), `#!/bin/sh\nkill $PPID\nsleep 0.5\n: >${root}/ended\nexit 143\n`)
    const env = { PATH: `${stubs}:${process.env.PATH}` }
    t.equal(spawnSync('sh', [SCRIPT, 'change', root], { env, stdio: 'ignore' }).status, 143)
    t.ok(existsSync(join(root, 'ended')))
  },
)

t.test('it wins over a change on trial, of which the journal tells', async t => {
  const board = new Board(t)
  await board.change(store => store.patch({ hostname: 'on-trial', deviceName: 'On trial' }, () => undefined, 600))
  t.equal(await board.setting('hostname'), 'on-trial')
  await board.insert('hostname=lobby\n').boot()
  t.equal(await board.setting('hostname'), 'lobby')
  t.not(await board.setting('deviceName'), 'On trial', 'the rest of the change was undone')
})

t.test('it wins over a factory reset that waits', async t => {
  const board = new Board(t)
  await board.change(store => store.patch({ hostname: 'used', deviceName: 'Used' }, () => undefined))
  await board.change((_, state) => orderReset(state, false))
  const { key } = await board.insert(`hostname=lobby\napi-key=${KEY}\n`).boot()
  t.equal(await board.setting('hostname'), 'lobby')
  t.not(await board.setting('deviceName'), 'Used')
  t.equal(key, KEY)
})

t.test('a factory reset goes back to what the card gave, or forgets it', async t => {
  for (const forgets of [false, true]) {
    const board = new Board(t)
    const delivered = await board.setting('hostname')
    await board.insert(ALL).boot()
    await board.insert('name=Lobby, left\n').boot()
    await board.change(store => store.patch({ hostname: 'used', ntp: { servers: ['192.0.2.9'] } }, () => undefined))
    await board.change((_, state) => orderReset(state, forgets))
    const { key } = await board.boot()
    t.equal(await board.setting('hostname'), forgets ? delivered : 'lobby')
    if (!forgets) t.equal(await board.setting('deviceName'), 'Lobby, left', 'the latest')
    t.same(
      await board.setting('ntp').then(ntp => (ntp as { servers: unknown }).servers),
      [],
      'servers that the card did not give',
    )
    t.equal(key === KEY, !forgets)
    t.equal(board.read(WPA)?.includes('correct horse'), forgets ? undefined : true)
    t.match(await board.setting('network'), { wlan0: { method: forgets ? 'dhcp' : 'static' } })
    const memory = board.read('/var/lib/receiverd/card')
    t.equal(memory === undefined, forgets)
    const before = board.files
    await board.boot()
    t.same(board.files, before, 'once')
  }
})

t.test('issuers beside it are taken with it, and leave the card', async t => {
  const [office, monitoring] = [new TestIssuer('office'), new TestIssuer('monitoring', 'ES256')]
  const board = new Board(t).insert('hostname=lobby\n')
  // As Notepad writes it, and as a Mac leaves files of its own.
  board.insertIssuer('office.json', `\ufeff${office.file({ maxAgeS: 3_600, source: 'image' })}\r\n`)
  board.insertIssuer('monitoring.json', monitoring.file()).insertIssuer('._office.json', 'Mac OS X')
  const { log } = await board.boot()
  t.equal(log.at(-1), 'notice: receiver.txt: taken: hostname, issuers/monitoring.json, issuers/office.json')
  t.strictSame(await board.issuers(), { monitoring: 'card', office: 'card' })
  t.match(JSON.parse(board.read('/etc/receiverd/issuers/office.json') ?? ''), {
    publicKey: office.publicKey,
    maxAgeS: 3_600,
  })
  t.equal(await board.setting('hostname'), 'lobby')
  const left = Object.keys(board.files).filter(name => name.startsWith('boot/firmware/issuers/'))
  t.strictSame(left, ['boot/firmware/issuers/._office.json'])

  t.comment('once: an issuer that was removed stays removed')
  await board.boot({}, (_, issuers) => issuers.remove('monitoring', () => undefined))
  const before = board.files
  await board.boot()
  t.same(board.files, before)
})

t.test('with issuers alone, without receiver.txt', async t => {
  const board = new Board(t).insertIssuer('office.json', new TestIssuer('office').file())
  await board.boot()
  t.strictSame(await board.issuers(), { office: 'card' })
})

t.test('issuers of the card outlast a new key, which removes those of the API; a reset brings them back', async t => {
  for (const forgets of [false, true]) {
    const board = new Board(t).insertIssuer('office.json', new TestIssuer('office').file())
    const { publicKey } = new TestIssuer('planted')
    await board.boot({}, async (_, issuers) => {
      await issuers.put('planted', { publicKey, roles: ['admin:r'] }, () => undefined)
      t.strictSame(await board.issuers(), { office: 'card', planted: 'api' })
      t.strictSame(await issuers.removeOwn(() => undefined), ['planted'])
      t.strictSame(await board.issuers(), { office: 'card' })
      await issuers.put('office', { publicKey, roles: ['admin:rw'] }, () => undefined)
      t.strictSame(await board.issuers(), { office: 'api' }, 'replaced by the API')
    })
    await board.change((_, state) => orderReset(state, forgets))
    await board.boot()
    t.strictSame(await board.issuers(), forgets ? {} : { office: 'card' })
    if (!forgets)
      t.notMatch(board.read('/etc/receiverd/issuers/office.json'), 'admin:rw"]', 'the key that the card gave')
    const before = board.files
    await board.boot()
    t.same(board.files, before, 'once')
  }
})

t.test('a radio that comes late after a factory reset gets its Wi-Fi all the same', async t => {
  for (const isRunning of [false, true]) {
    const board = new Board(t)
    await board.insert(ALL).boot()
    await board.change((_, state) => orderReset(state, false))
    board.unplugRadio()
    const appear = (store: SystemStore) => {
      board.plugInRadio()
      const shown = () => (store.value('wifi')?.networks ?? []).some(({ ssid }) => ssid === 'Guests')
      return eventually(() => shown() && store.value('network')?.wlan0?.method === 'static')
    }
    await board.boot({}, isRunning ? appear : undefined)
    // Of the rest, a client changes something, and the card gives something new.
    await board.change(store => store.patch({ hostname: 'since' }, () => undefined))
    if (!isRunning) {
      await board.insert('name=New\n').boot()
      t.equal(await board.setting('deviceName'), 'New')
      board.plugInRadio()
    }
    await board.boot()
    t.match(await board.setting('wifi'), WIFI)
    t.match(await board.setting('network'), { wlan0: { method: 'static', address: '192.0.2.10/24' } })
    t.equal(await board.setting('hostname'), 'since', 'a setting that was taken again is not due any more')
    const before = board.files
    await board.boot()
    t.same(board.files, before, 'once')
  }
})

t.test('after a factory reset, a setting that is not possible any more does not hold up the rest', async t => {
  const board = new Board(t).insert(ALL)
  await board.boot()
  await board.change((_, state) => orderReset(state, false))
  board.unplugRadio()
  const { log, key } = await board.boot()
  for (const names of ['wifi-ssid, wifi-password, wifi-country', 'address, gateway, dns'])
    t.match(log.join('\n'), `warning: receiver.txt: ${names}: taken again when its network interface is there`)
  t.equal(key, KEY)
  t.equal(await board.setting('hostname'), 'lobby')
})

t.test('a card whose Wi-Fi adapter appears after the start is taken then', async t => {
  const board = new Board(t).insert(ALL)
  board.unplugRadio()
  const { log, key } = await board.boot({}, async (store, _, keys) => {
    t.match(board.errors, /wifi-ssid: .*no Wi-Fi adapter/)
    t.not(keys.current, KEY)
    // Another change is none of the adapter.
    await store.patch({ deviceName: 'New' }, () => undefined)
    board.plugInRadio()
    await eventually(() => board.read(TEXT) === LEFT)
  })
  t.match(log.at(-1), /^notice: receiver\.txt: taken: hostname, /)
  t.equal(key, KEY)
  t.equal(board.errors, '')
  t.equal(await board.setting('hostname'), 'lobby')
  t.match(await board.setting('wifi'), WIFI)
  t.match(await board.setting('network'), { wlan0: { method: 'static', address: '192.0.2.10/24' } })
})

t.test('a card whose interfaces cannot be read is reported, and taken once they can', async t => {
  const board = new Board(t).insert('hostname=lobby-2\naddress=192.0.2.10/24\n')
  board.failsToList = path => path.endsWith('/sys/class/net')
  await board.boot({}, async () => {
    t.equal(board.errors, 'Not used, because of:\n\nhostname, address: i/o error (EIO)\n')
    board.failsToList = () => false
    board.monitors.tell('add', 'net')
    await eventually(() => board.errors === '')
  })
  t.equal(await board.setting('hostname'), 'lobby-2')
})

t.test(
  'its Wi-Fi is the setting that the API shows: one change with the rest, preferred to what was joined before',
  async t => {
    const board = new Board(t).insert(ALL)
    await board.boot()
    const shown = {
      country: 'DE',
      networks: [{ ssid: 'Guests', password: 'set', hidden: true }],
      present: true,
      connected: '',
    }
    t.same(await board.setting('wifi'), shown)
    await board.insert('hostname=lobby-2\nwifi-ssid=Office\n').boot()
    const networks = [{ ssid: 'Office', password: '', hidden: true }, ...shown.networks]
    t.same(await board.setting('wifi'), { ...shown, networks })
    t.match(board.read(WPA), 'correct horse', 'nor is the password of the other network lost')
    await board.insert('hostname=_\nwifi-ssid=Other\n').boot()
    t.same(await board.setting('wifi'), { ...shown, networks }, 'with a mistake, none is taken')

    await board.insert('wifi-ssid=Guests\nwifi-password=another horse\nwifi-country=DK\n').boot()
    const [office, guests] = networks
    t.same(await board.setting('wifi'), { ...shown, country: 'DK', networks: [guests, office] })
    t.match(board.read(WPA), 'another horse')
    t.notMatch(board.read(WPA), 'correct horse')
    for (let n = 1; n <= MAX_NETWORKS; n++) await board.insert(`wifi-ssid=Net ${n}\n`).boot()
    const names = ((await board.setting('wifi')) as { networks: { ssid: string }[] }).networks.map(({ ssid }) => ssid)
    t.same([names.length, names[0]], [MAX_NETWORKS, `Net ${MAX_NETWORKS}`], 'the last ones make room')
  },
)

t.test('a password of a card is never one to be kept', async t => {
  const board = new Board(t).insert(ALL)
  await board.boot()
  await board.insert('wifi-ssid=Guests\nwifi-password=set\n').boot()
  t.match(board.errors, 'line 2, wifi-password: must be 8')
  t.match(board.read(WPA), 'correct horse')
})

t.test('a card that cannot be written is taken once, and said', async t => {
  const board = new Board(t).insert(ALL)
  board.isCardWritable = false
  const { log } = await board.boot()
  t.match(log.at(-1), /^error: receiver\.txt: receiverd-card\.service could not change the boot partition/)
  t.equal(board.read(TEXT), ALL)
  await board.change(store => store.patch({ hostname: 'changed' }, () => undefined))
  await board.boot()
  t.equal(await board.setting('hostname'), 'changed')
  board.isCardWritable = true
  await board.boot()
  t.equal(board.read(TEXT), LEFT, 'once it can')
  t.equal(await board.setting('hostname'), 'changed')
})

t.test('however much of it must be remembered', async t => {
  const board = new Board(t).insert(`#${'\u0001'.repeat(16_000)}\nhostname=lobby\n`)
  board.isCardWritable = false
  await board.boot()
  await board.change(store => store.patch({ hostname: 'changed' }, () => undefined))
  await board.boot()
  t.equal(await board.setting('hostname'), 'changed')
})

t.test('as editors write it: byte-order mark, CRLF, no last line end, quotes, blanks, other spellings', async t => {
  const lines = [`Api-Key= '${KEY}'`, ' HostName =LOBBY', '  # a comment', 'name=" Lobby "', 'wifi_ssid=""']
  const board = new Board(t).insert(`\ufeff${lines.join('\r\n')}`)
  const { log, key } = await board.boot()
  t.equal(log.at(-1), 'notice: receiver.txt: taken: api-key, hostname, name')
  t.equal(await board.setting('hostname'), 'lobby')
  t.equal(await board.setting('deviceName'), ' Lobby ')
  t.equal(key, KEY)
  t.equal(board.read(TEXT), '#Api-Key=\r\n# HostName =LOBBY\r\n  # a comment\r\n#name=" Lobby "\r\n#wifi_ssid=""')
})

t.test('no spelling of a name keeps its secret on the card', async t => {
  for (const name of ['API-KEY', 'Api_Key ', '\tapi-\u212aey']) {
    const board = new Board(t).insert(`${name}=${KEY}\n`)
    const { key } = await board.boot()
    t.equal(key, KEY, name)
    t.notMatch(board.read(TEXT), '0123456789')
  }
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
    t.match((await board.boot()).log.at(-1), /taken/, value)
    t.equal(await board.setting('deviceName'), value)
    const ssid = /^\tssid=([0-9a-f]*)$/m.exec(board.read(WPA) ?? '')?.[1] ?? ''
    t.equal(Buffer.from(ssid, 'hex').toString(), value)
    t.match(board.read(WPA), 'key_mgmt=NONE')
    t.notOk(existsSync(join(board.root, 'hit')) || existsSync('hit'), 'no command was run')
  }
  for (const password of ['"quoted" $(id)', 'back\\slash#']) {
    const board = new Board(t).insert(`wifi-ssid=a\nwifi-password=${password}\n`)
    await board.boot()
    t.ok(board.read(WPA)?.includes(`psk="${password}"\n`), password)
  }
  const raw = 'AB'.repeat(32)
  const board = new Board(t).insert(`wifi-ssid=a\nwifi-password=${raw}\n`)
  await board.boot()
  t.match(board.read(WPA), `\n\tpsk=${raw}\n`)
})

t.test('interfaces that cannot be read do not keep the service from starting', async t => {
  for (const folder of ['/sys/class/net', '/etc/wpa_supplicant']) {
    const board = new Board(t)
    const readdir: FileSystem['readdir'] = path => {
      if (path === `${board.root}${folder}`) throw systemError('EACCES')
      return KERNEL.readdir(path)
    }
    const system = new System(board.root, { fs: { ...KERNEL, readdir }, running: true })
    const state = new Files(join(board.root, 'var/lib/receiverd'))
    await remember(state, { given: { address: '192.0.2.10/24' }, isDue: true })
    const card = new CardTaker({ system, state, folder: '/boot/firmware', log: () => undefined, linkMs: 1 })
    await t.resolves(card.waitForLink(), folder)
  }
})
