/** Wi-Fi on a booted device: the kernel's simulated radios (mac80211_hwsim), and access points of hostapd(8). */
import { join } from 'node:path'
import type { Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { idOf } from '../support/api.ts'
import { eventually } from '../support/eventually.ts'
import type { Machine } from './machine.ts'

/** Debian's package, which is not in the image. */
export const HOSTAPD = join(REPOSITORY, 'build/out/image/hostapd.deb')
/** A folder on the device, where nothing in /run can be executed. */
const FOLDER = '/var/tmp/hostapd'
const PROGRAM = `${FOLDER}/usr/sbin/hostapd`
const CONTROL = '/run/access-points'
/** Milliseconds until the device is in a network or has left it, on a busy emulator. */
const JOIN_MS = 180_000
/** Longer than that, so that no change is undone in the meantime. */
const WITHIN_S = 600
const OFFICE = 'Office'
const PASSWORD = 'correct horse'
/** A name and a password with characters that files and tools treat as special. */
const CAFE = 'Café #1 "}'
const CAFE_PASSWORD = 'a"b# c\\d'
const HOSTILE = '\u202e\n\\"[2'

interface Wifi {
  readonly present: boolean
  readonly connected: string
  readonly networks: readonly { readonly ssid: string; readonly password: string }[]
}

const network = (ssid: string, password: string) => ({ ssid, password, hidden: false })

/** Access points that can be switched on and off. The first radio is the device's own. */
class AccessPoints {
  readonly #device: Machine

  constructor(device: Machine) {
    this.#device = device
  }

  async prepare(): Promise<void> {
    await this.#device.upload(HOSTAPD, '/run/hostapd.deb')
    await this.#device.shell(`set -e; dpkg-deb --extract /run/hostapd.deb ${FOLDER}; modprobe mac80211_hwsim radios=4`)
  }

  /** Switches an access point on, given its radio, 1 to 3, and lines of hostapd.conf. */
  async on(radio: number, ssid: string, lines: readonly string[]): Promise<void> {
    const channel = 1 + 5 * (radio - 1)
    const name = Buffer.from(ssid).toString('hex')
    const about = [`interface=wlan${radio}`, `channel=${channel}`, `ssid2=${name}`]
    const text = [...about, 'hw_mode=g', `ctrl_interface=${CONTROL}`, ...lines, ''].join('\n')
    await this.#device.replaceFile(`/run/ap${radio}.conf`, text)
    const start = `systemd-run --quiet --collect --unit=ap${radio} --property=Type=forking ${PROGRAM} -B /run/ap${radio}.conf`
    await this.#device.shell(`${start} || { journalctl --quiet --unit ap${radio}; false; }`)
    const state = () => this.#device.shell(`${PROGRAM}_cli -p ${CONTROL} -i wlan${radio} status || true`)
    await eventually(async () => (await state()).includes('state=ENABLED'), JOIN_MS)
  }

  async off(radio: number): Promise<void> {
    await this.#device.shell(`systemctl stop ap${radio}`)
  }
}

/** Joins networks, loses them, and is brought back from wrong passwords. */
export async function joinsNetworks(t: Test, device: Machine): Promise<void> {
  const points = new AccessPoints(device)
  await points.prepare()
  const wifi = async () => (await device.system()).value.wifi as unknown as Wifi | undefined
  const isIn = (ssid: string) => eventually(async () => (await wifi())?.connected === ssid, JOIN_MS)
  const set = (...networks: readonly object[]) => device.patch({ wifi: { networks } }, {}, `?confirmWithin=${WITHIN_S}`)
  const decide = (method: 'POST' | 'DELETE') => device.fetch('/system/confirm', { method })
  const office = () =>
    points.on(1, OFFICE, ['wpa=2', 'wpa_key_mgmt=WPA-PSK', 'rsn_pairwise=CCMP', `wpa_passphrase=${PASSWORD}`])
  await eventually(async () => (await wifi())?.present, JOIN_MS)
  await office()
  const sae = ['wpa=2', 'wpa_key_mgmt=SAE', 'ieee80211w=2', 'rsn_pairwise=CCMP', `sae_password=${CAFE_PASSWORD}`]
  await points.on(2, CAFE, sae)
  await points.on(3, HOSTILE, [])

  await t.test('a scan finds what is there, whatever it is called', async t => {
    // In an emulator, a scan may take longer than a device waits for one; it is there for the next.
    const answer = await eventually(async () => {
      const answer = await device.fetch('/system/choices?scan=true')
      if (answer.ok) return answer
      t.match(await answer.json(), { detail: 'refused to look for networks: wpa_supplicant did not scan' })
      return undefined
    }, JOIN_MS)
    const { wifi } = (await answer.json()) as { wifi: { networks: readonly { ssid: string; security: string }[] } }
    const found = Object.fromEntries(wifi.networks.map(({ ssid, security }) => [ssid, security]))
    t.strictSame(found, { [OFFICE]: 'psk', [CAFE]: 'sae', [HOSTILE]: 'open' })
  })

  await t.test('it joins a network, on trial, and tells the signal', async t => {
    const answer = await set(network(OFFICE, PASSWORD))
    t.equal(answer.status, 200)
    await isIn(OFFICE)
    t.equal((await decide('POST')).status, 200)
    t.match((await wifi())?.networks, [{ ssid: OFFICE, password: 'set' }])
    const status = (await (await device.fetch('/status')).json()) as { wifi: { ssid: string; signalDbm: number } }
    t.equal(status.wifi.ssid, OFFICE)
    t.ok(status.wifi.signalDbm < 0, `${status.wifi.signalDbm} dBm`)
    t.equal((await device.shell('stat -c %a /etc/wpa_supplicant/wpa_supplicant-wlan0.conf')).trim(), '600')
  })

  await t.test('a wrong password: undone, it is back', async t => {
    const trial = idOf(await set(network(OFFICE, 'not this one')))
    await isIn('')
    const undone = await device.fetch('/system/confirm', { method: 'DELETE', headers: { 'If-Match': `"${trial}"` } })
    t.equal(undone.status, 200)
    await isIn(OFFICE)
  })

  await t.test('out of range, and back', async () => {
    await points.off(1)
    await isIn('')
    await office()
    await isIn(OFFICE)
  })

  await t.test('its daemon crashes, and joins again', async () => {
    const pid = () => device.shell('systemctl show --property=MainPID --value wpa_supplicant@wlan0')
    const before = await pid()
    await device.shell(`kill -SEGV ${before}`)
    await eventually(async () => !['0\n', before].includes(await pid()), JOIN_MS)
    await isIn(OFFICE)
  })

  await t.test('another one is preferred, by WPA3; when that is gone, the second', async t => {
    t.equal((await set(network(CAFE, CAFE_PASSWORD), network(OFFICE, 'set'))).status, 200)
    await isIn(CAFE)
    t.equal((await decide('POST')).status, 200)
    await points.off(2)
    await isIn(OFFICE)
  })

  await t.test('a name that would break files and tools is a name', async t => {
    t.equal((await set(network(HOSTILE, ''))).status, 200)
    await isIn(HOSTILE)
    t.equal((await decide('DELETE')).status, 200)
    await isIn(OFFICE)
  })

  await t.test('an adapter that is unplugged is not there, and no password is in the journal', async t => {
    await device.shell('modprobe --remove mac80211_hwsim')
    await eventually(async () => (await wifi())?.present === false, JOIN_MS)
    const journal = await device.shell('journalctl --quiet --boot')
    for (const password of [PASSWORD, CAFE_PASSWORD, 'not this one']) t.notOk(journal.includes(password))
  })
}
