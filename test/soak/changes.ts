/** Changes of settings by the API and by hand, and what the files say. */
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import type { JsonObject } from '../../src/json.ts'
import { Snapshot } from '../../src/system/snapshot.ts'
import type { Random } from '../support/random.ts'
import type { SoakedService } from './service.ts'

/** By the API, one setting each. */
export const PATCHES: readonly ((random: Random) => JsonObject)[] = [
  random => ({ deviceName: `${random.words().slice(0, 40)} ${random.below(50)}` }),
  random => ({ hostname: `host-${random.below(50)}` }),
  random => ({ groups: Array.from({ length: random.below(4) }, (_, n) => `group-${n}-${random.below(9)}`) }),
  random => ({ timezone: random.pick(['Europe/Brussels', 'Asia/Tokyo', 'Etc/UTC']) }),
  random => ({ locale: random.pick(['en_GB.UTF-8', 'nl_BE.UTF-8', 'C.UTF-8', 'C']) }),
  random => ({ ntp: { servers: ['a.example', '192.0.2.1', '2001:db8::1'].slice(random.below(4)) } }),
  random => ({ ntp: { enabled: random.chance(0.5) } }),
  random => ({ ssh: { enabled: random.chance(0.5) } }),
  random => ({ network: { eth0: { dns: ['192.0.2.3', '2001:db8::2'].slice(random.below(3)) } } }),
  random => ({ display: { 'HDMI-A-1': { rotation: random.pick([0, 90, 180, 270]) } } }),
  random => ({
    airplay: { name: random.pick(['', `Room ${random.below(20)}`]), access: random.pick(['open', 'pin']) },
  }),
  random => ({ moderation: { timeoutS: 30 + random.below(570) } }),
  random => ({ wifi: { networks: random.pick([[], [{ ssid: 'Guests', password: '', hidden: false }]]) } }),
]

/** Refused, and changing nothing. */
export const REFUSED: readonly (readonly [body: string, status: number])[] = [
  ['{"hostname":"-"}', 422],
  ['{"deviceName":"not this one","timezone":"Atlantis/City"}', 422],
  ['{"hardware":{"model":"x"}}', 422],
  ['{"deviceName":null}', 422],
  ['{', 400],
  ['{"deviceName":"a","deviceName":"b"}', 400],
  [`"${'x'.repeat(70_000)}"`, 413],
]

type ByHand = (service: SoakedService, random: Random) => void

function replace(service: SoakedService, path: string, text: string, inPlace: boolean): void {
  const at = service.path(path)
  mkdirSync(dirname(at), { recursive: true })
  if (inPlace) return writeFileSync(at, text)
  writeFileSync(`${at}.new`, text)
  renameSync(`${at}.new`, at)
}

const file = (path: string, text: (random: Random) => string): ByHand => {
  return (service, random) => replace(service, path, text(random), random.chance(0.5))
}

/** In the files, as an administrator or an update would, some of it not usable. */
export const BY_HAND: readonly ByHand[] = [
  file('etc/hostname', random => random.pick([`foreign-${random.below(50)}\n`, '\0', ''])),
  file('etc/machine-info', random => `# by hand\nPRETTY_HOSTNAME="Foreign ${random.below(50)}"\n`),
  service => rmSync(service.path('etc/machine-info'), { force: true }),
  file('etc/locale.conf', random => random.pick(['LANG=de_DE.UTF-8\n', 'LANG=C\n', '\0'])),
  file('etc/receiverd/groups.conf', random => `GROUPS="by-hand ${random.below(9)}"\n`),
  file('etc/systemd/timesyncd.conf.d/50-receiverd.conf', random => `[Time]\nNTP=hand-${random.below(9)}.example\n`),
  service => rmSync(service.path('etc/systemd/timesyncd.conf.d'), { recursive: true, force: true }),
  (service, random) => {
    const link = service.path('etc/localtime')
    rmSync(`${link}.new`, { force: true })
    symlinkSync(`/usr/share/zoneinfo/${random.pick(['Asia/Tokyo', 'Etc/UTC', 'No/Where'])}`, `${link}.new`)
    renameSync(`${link}.new`, link)
  },
]

/** The configuration as a newcomer reads it: from the files alone. Nothing is installed on this device. */
export async function truthOf(root: string): Promise<JsonObject> {
  const snapshot = new Snapshot(registry(new System(root)), () => undefined)
  await snapshot.probe()
  await snapshot.read(snapshot.available)
  const { update: _, ...truth } = JSON.parse(snapshot.json) as JsonObject
  return truth
}

/** Some files as the system itself would read them, by readers that share nothing with the service. */
export function disagreements(service: SoakedService, value: JsonObject): readonly string[] {
  const text = (path: string) => {
    try {
      return readFileSync(service.path(path), 'utf8')
    } catch {
      return ''
    }
  }
  const hostname = text('etc/hostname').trim()
  const pretty = /^PRETTY_HOSTNAME="Foreign (\d+)"$/m.exec(text('etc/machine-info'))?.[1]
  const ntp = /^NTP=(.*)$/m.exec(text('etc/systemd/timesyncd.conf.d/50-receiverd.conf'))?.[1]
  const wrong: string[] = []
  if (/^[a-z0-9-]+$/.test(hostname) && value.hostname !== hostname)
    wrong.push(`hostname ${value.hostname}, not ${hostname}`)
  if (pretty !== undefined && value.deviceName !== `Foreign ${pretty}`) wrong.push(`deviceName ${value.deviceName}`)
  const { servers } = value.ntp as unknown as { servers: readonly string[] }
  if (ntp && servers.join(' ') !== ntp) wrong.push(`ntp.servers ${servers}, not ${ntp}`)
  return wrong
}
