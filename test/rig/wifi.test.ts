/** Wi-Fi from within the sandbox of the unit. The host's kernel has no radio, so a fake stands at wpa_supplicant's socket. */
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import { FakeSupplicant } from '../support/fakes/supplicant.ts'
import { needs } from '../support/needs.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const FILE = '/etc/wpa_supplicant/wpa_supplicant-wlan0.conf'
const UNIT = 'wpa_supplicant@wlan0.service'
const OFFICE = { ssid: 'Office', password: 'correct horse', flags: '[WPA2-PSK-CCMP][ESS]' }
const LAB = { ssid: 'Straße 🎬', password: 'a"b# c\\d', level: -70, flags: '[WPA2-PSK+SAE-CCMP][ESS]' }
/** The folders of an adapter in /sys, over those of the machine. */
const ADAPTER = `mkdir -p /run/radio/net && cp -a /sys/class/net/. /run/radio/net
mkdir -p /run/radio/net/wlan0/device /run/radio/net/wlan0/phy80211 && cd /run/radio/net/wlan0
echo 1 >type && echo 7 >ifindex && echo dormant >operstate && echo DEVTYPE=wlan >uevent && echo 02:00:00:00:00:07 >address
mount --bind /run/radio/net /sys/class/net`

t.test('Wi-Fi', { skip: NO_RIG || needs('python3') }, async t => {
  const rig = await startRig(t, { files: { [FILE]: 'ctrl_interface=/run/wpa_supplicant\n' } })
  t.equal((await rig.system()).value.wifi, undefined, 'without a radio')
  t.equal((await rig.shell('pgrep -fc "ip -oneline monitor link$" || true')).trim(), '0')

  await rig.shell(ADAPTER)
  await rig.shell(
    `cd /etc/systemd/system && mkdir -p dev.wants && ln -s /usr/lib/systemd/system/wpa_supplicant@.service dev.wants/${UNIT}`,
  )
  await rig.shell(`chmod 600 ${FILE} && mkdir /run/wpa_supplicant`)
  const root = `/proc/${rig.pid}/root`
  const fake = await FakeSupplicant.start(t, [
    `${root}/run/wpa_supplicant`,
    'wlan0',
    `${root}${FILE}`,
    `${root}/run/radio/net/wlan0/operstate`,
    root,
  ])
  await rig.restart()
  const wifi = async () => (await rig.system()).value.wifi as JsonObject
  const connected = (ssid: string) => eventually(async () => (await wifi()).connected === ssid)
  /** Only a kernel tells of its radio. But the service also looks again when the file of Wi-Fi was replaced. */
  const look = () => rig.shell(`cp -p ${FILE} ${FILE}.new && mv ${FILE}.new ${FILE}`)

  await t.test('a scan, by the real wpa_cli', async t => {
    await fake.air([OFFICE, LAB, { ssid: '\u{202e}\n', level: -80 }, { ssid: Buffer.from([0xff]), level: -20 }])
    const answer = await rig.fetch('/system/choices?scan=true')
    t.match(await answer.json(), {
      wifi: {
        networks: [
          { ssid: 'Office', signalDbm: -50, security: 'psk' },
          { ssid: 'Straße 🎬', signalDbm: -70, security: 'psk' },
          { ssid: '\u{202e}\n', signalDbm: -80, security: 'open' },
        ],
      },
    })
  })

  await t.test('a network is joined; out of range and back; the second network', async t => {
    const networks = [OFFICE, LAB].map(({ ssid, password }) => ({ ssid, password, hidden: false }))
    t.equal((await rig.patch({ wifi: { country: 'DK', networks: networks.slice(0, 1) } })).status, 200)
    await look()
    await connected('Office')
    t.equal(await rig.shell(`stat -c "%a %U" ${FILE}`), '600 root\n')
    const status = async () => ((await (await rig.fetch('/status')).json()) as JsonObject).wifi
    await eventually(async () => (await status()) !== undefined)
    t.same(await status(), { ssid: 'Office', signalDbm: -50 })
    await fake.air([], 'in none')
    await look()
    await connected('')
    await fake.air([OFFICE], 'in Office')
    await look()
    await connected('Office')
    const kept = [{ ...networks[0], password: 'set' }, networks[1]]
    t.equal((await rig.patch({ wifi: { networks: kept } })).status, 200)
    await fake.air([LAB], 'in Stra\\xc3\\x9fe \\xf0\\x9f\\x8e\\xac')
    await look()
    await connected(LAB.ssid)
  })

  await t.test('a wrong password on trial is undone by a restart', async t => {
    await fake.air([OFFICE], 'in Office')
    const wrong = [{ ssid: 'Office', password: 'not this one', hidden: false }]
    t.equal((await rig.patch({ wifi: { networks: wrong } }, {}, '?confirmWithin=60')).status, 200)
    await eventually(() => fake.said.at(-1) === 'in none')
    await rig.restart()
    await eventually(() => fake.said.at(-1) === 'in Office')
    await connected('Office')
  })

  await t.test('no password is where others could read it', async t => {
    const secrets = 'correct horse|not this one|a"b# c'
    const journal = await rig.shell('journalctl --no-pager --output=export')
    t.notMatch(journal, new RegExp(secrets))
    const readable = await rig.shell(
      `find /etc /var/lib /run -xdev -type f -perm /077 -exec grep -lE '${secrets}' {} + || true`,
    )
    t.equal(readable, '')
  })
})
