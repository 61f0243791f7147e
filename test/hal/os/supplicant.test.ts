/** The real wpa_cli(8), with a fake and with the real daemon at the other end of the socket. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { editWpa } from '../../../hal/format/wpa-supplicant.ts'
import { Supplicant } from '../../../hal/os/supplicant.ts'
import { System } from '../../../hal/os/system.ts'
import { FakeSupplicant } from '../../support/fakes/supplicant.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { NEEDS_ROOT, needs } from '../../support/needs.ts'

const network = (ssid: string, password = '') => ({ ssid, password, hidden: false })

/** A daemon with a network of its own, and us as its client. */
async function start(t: Test) {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'replies'))
  const file = join(folder, 'wpa.conf')
  const write = (...networks: ReturnType<typeof network>[]) =>
    writeFileSync(file, editWpa('', { country: '', networks }))
  write(network('Office', 'correct horse'))
  const fake = await FakeSupplicant.start(t, [join(folder, 'control'), 'wlan0', file])
  const system = new System('/')
  const client = new Supplicant(system, 'wlan0', join(folder, 'control'), join(folder, 'replies'))
  return { fake, client, write }
}

t.test('a network is joined and left', { skip: needs('wpa_cli', 'python3') }, async t => {
  const { fake, client, write } = await start(t)
  t.equal(await client.connected(), '')
  t.equal(await client.signal(), undefined)
  await fake.air([{ ssid: 'Office', password: 'correct horse', level: -61 }], 'in Office')
  t.equal(await client.connected(), 'Office')
  t.equal(await client.signal(), -61)
  write(network('Office', 'a wrong one'))
  t.equal(await client.reconfigure(), true)
  t.equal(await client.connected(), '')
  write(network('Office', 'correct horse'))
  await client.reconfigure()
  t.equal(await client.connected(), 'Office')
  await fake.air([], 'in none')
  t.equal(await client.connected(), '')
})

t.test('a scan', { skip: needs('wpa_cli', 'python3') }, async t => {
  const { fake, client } = await start(t)
  const rtl = '\u{202e}moc.knab'
  const crowd = Array.from({ length: 200 }, (_, at) => ({ ssid: `crowd ${at}`, level: -90 }))
  await fake.air([
    ...crowd,
    { ssid: 'Office', level: -60, flags: '[WPA2-PSK-CCMP][ESS]' },
    { ssid: 'Office', level: -40, flags: '[WPA2-PSK-CCMP][ESS]' },
    { ssid: 'a\nssid=b"\\\u{1b}[2J', level: -50 },
    { ssid: rtl, level: -55, flags: '[WPA2-EAP-CCMP][ESS]' },
    { ssid: Buffer.from([0xff, 0x61]), level: -30 },
    { ssid: '', level: -30 },
  ])
  const began = performance.now()
  const found = await client.scan()
  t.ok(performance.now() - began < 8_000, 'it ends with the results, not with its time')
  t.strictSame(found.slice(0, 3), [
    { ssid: 'Office', signalDbm: -40, security: 'psk' },
    { ssid: 'a\nssid=b"\\\u{1b}[2J', signalDbm: -50, security: 'open' },
    { ssid: rtl, signalDbm: -55, security: 'enterprise' },
  ])
  t.equal(found.length, 64)
})

t.test('without a daemon', { skip: needs('wpa_cli', 'python3') }, async t => {
  const { fake, client } = await start(t)
  await fake.stop()
  for (const act of ['connected', 'signal', 'reconfigure', 'scan'] as const)
    await t.rejects(async () => void (await client[act]()), { code: 'COMMAND_FAILED' }, act)
})

/** A namespace without a network: its loopback is a wired interface to the daemon. */
const JUDGE = `
ip link set lo up
wpa_supplicant -B -P "$1/pid" -i lo -D wired -c "$1/wpa.conf" >"$1/log" || { cat "$1/log" >&2; exit 1; }
wpa_cli -p "$1/control" -s "$1" -i lo list_networks
wpa_cli -p "$1/control" -s "$1" -i lo reconfigure
echo contry=DE >>"$1/wpa.conf"
wpa_cli -p "$1/control" -s "$1" -i lo reconfigure
wpa_cli -p "$1/control" -s "$1" -i lo list_networks
kill "$(cat "$1/pid")"
`

t.test('the real daemon takes what is written', { skip: NEEDS_ROOT || needs('wpa_supplicant', 'ip') }, async t => {
  const folder = temporaryFolder(t)
  const names = ['Office', 'Straße "7" #\\', 'a'.repeat(32), ' ', '\u{202e}\n\0']
  const networks = names.map((name, at) => network(name, ['correct horse', 'a"b# c\\d', '', 'ab'.repeat(32)][at] ?? ''))
  const text = editWpa(`ctrl_interface=${folder}/control\nfast_reauth=1\n`, { country: 'DK', networks })
  writeFileSync(join(folder, 'wpa.conf'), text)
  const said = execFileSync('unshare', ['--net', 'sh', '-c', JUDGE, 'sh', folder], { encoding: 'utf8' }).split('\n')
  const listed = (from: number) => said.slice(from, from + names.length).map(line => line.split('\t')[1])
  const expected = ['Office', 'Stra\\xc3\\x9fe \\"7\\" #\\\\', 'a'.repeat(32), ' ', '\\xe2\\x80\\xae\\n\\x00']
  t.strictSame(listed(1), expected)
  t.equal(said[6], 'OK')
  t.equal(said[7], 'FAIL', 'a line that it does not know')
  t.strictSame(listed(9), expected, 'it goes on with what it read before')
})
