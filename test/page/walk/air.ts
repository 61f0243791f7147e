/** The networks around the device, and those that it knows. */
import type { Station } from '../../support/fakes/supplicant.ts'
import type { Field } from './fields.ts'

export const STATIONS = [
  { ssid: 'Office', password: 'correct horse', level: -50, flags: '[WPA2-PSK-CCMP][ESS]' },
  { ssid: 'Lab', password: 'battery staple', level: -65, flags: '[WPA2-SAE-CCMP][ESS]' },
  { ssid: 'Guests', password: '', level: -85 },
] as const satisfies readonly Station[]
export const WRONG = 'not this one'

/** As the page shows it, and as the API does. */
export interface Network {
  readonly ssid: string
  readonly password: string
  readonly hidden: boolean
}

/** Their names in order of preference. */
export const NETWORKS: Field = {
  card: 'Wi-Fi',
  label: 'Wi-Fi',
  path: ['wifi', 'networks'],
  kind: 'text',
  isTried: true,
  other: (random, _, now) => {
    const [first = '', ...rest] = now.split(', ')
    return random.chance(0.3) ? rest.join(', ') : [...rest, first].join(', ')
  },
  toJson: shown => networksOf(shown),
  shown: value => (value as readonly Network[] | undefined)?.map(({ ssid }) => ssid).join(', ') ?? '',
}

/** With the passwords that the device has. */
export function networksOf(names: string): readonly Network[] {
  const known = names.split(', ').filter(name => name !== '')
  return known.map(ssid => ({ ssid, password: passwordOf(ssid) === '' ? '' : 'set', hidden: false }))
}

export function passwordOf(ssid: string): string {
  return STATIONS.find(station => station.ssid === ssid)?.password ?? ''
}
