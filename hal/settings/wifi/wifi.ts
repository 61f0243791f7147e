import { isDeepStrictEqual } from 'node:util'
import * as Type from 'typebox/type'
import {
  editWpa,
  MAX_NETWORKS,
  MAX_SSID_BYTES,
  readWpa,
  type WpaConfiguration,
  whyNoCountry,
  whyNoNetwork,
} from '../../format/wpa-supplicant.ts'
import type { System } from '../../os/system.ts'
import { KEPT } from '../../secret.ts'
import { refuse, type Setting, type Violation, whyReadOnly } from '../../setting.ts'
import { LOCKS_OUT } from '../locks-out.ts'
import { LINKS } from '../network/links.ts'
import { Wifi } from './adapter.ts'

/** Length of a key in hexadecimal digits; passphrases are shorter. */
const MAX_PASSWORD = 64

const networkSchema = Type.Object(
  {
    ssid: Type.String({
      description: `Name of the network (SSID), 1 to ${MAX_SSID_BYTES} bytes in UTF-8.`,
      minLength: 1,
      maxLength: MAX_SSID_BYTES,
    }),
    password: Type.String({
      description:
        'Passphrase of 8 to 63 characters, or a key of 64 hexadecimal digits. Empty for an open network. Reads as ' +
        `${KEPT}; sending that back keeps the current password.`,
      maxLength: MAX_PASSWORD,
      format: 'password',
    }),
    hidden: Type.Boolean({ description: 'Whether the network hides its name.' }),
  },
  { additionalProperties: false },
)

const schema = Type.Object(
  {
    country: Type.String({
      description:
        'Two capital letters of the country that the device is in (ISO 3166-1), such as DK, which decide the channels ' +
        'that may be used. Empty if unset.',
      maxLength: 2,
    }),
    networks: Type.Array(networkSchema, {
      description:
        'Networks to join, in order of preference. Networks set elsewhere, such as enterprise networks, are kept.',
      maxItems: MAX_NETWORKS,
    }),
    present: Type.Boolean({ description: 'Whether the adapter is present.', readOnly: true }),
    connected: Type.String({
      description: 'The network that the device is connected to. Empty if none.',
      readOnly: true,
    }),
  },
  { description: 'Networks that the device joins by radio.', additionalProperties: false, ...LOCKS_OUT },
)
type Value = Type.Static<typeof schema>

/** Wi-Fi through wpa_supplicant, in the file of the first adapter. */
export function wifi(system: System, radio = new Wifi(system)): Setting<typeof schema> {
  const withFacts = async ({ country, networks }: WpaConfiguration): Promise<Value> => ({
    country,
    networks: networks.map(network => ({ ...network })),
    present: await radio.isPresent(),
    connected: await radio.connected(),
  })
  return {
    name: 'wifi',
    schema,
    get files() {
      return radio.files
    },
    mayHave: path => radio.mayHave(path),
    sources: [`${LINKS}/*`, ...radio.sources],
    devices: ['net'],
    // The kernel reports when a network is joined or left.
    watch: changed => system.monitor(['ip', '-oneline', 'monitor', 'link'], changed),
    unavailable: () => radio.whyNone(),
    read: async () => withFacts(readWpa((await radio.text()) ?? '')),
    fallback: () => withFacts({ country: '', networks: [] }),
    async check(next, previous) {
      const found = [
        ...whyReadOnly(['present', 'connected'], next, previous),
        ...refuse('/country', next.country === previous.country ? undefined : whyNoCountry(next.country)),
      ]
      for (const at of next.networks.keys()) found.push(...whyNotNetwork(next.networks, at, previous.networks))
      return found
    },
    async write(next) {
      const text = (await radio.textForEdit()) ?? ''
      return radio.write(isSame(next, readWpa(text)) ? text : editWpa(text, next))
    },
    async activate(_next, _previous, isRewritten) {
      if (isRewritten) await radio.reload()
    },
  }
}

type Networks = Value['networks']

function whyNotNetwork(next: Networks, at: number, previous: Networks): readonly Violation[] {
  const network = next[at]
  if (!network) return []
  const { ssid, password } = network
  const isAgain = next.slice(0, at).some(other => other.ssid === ssid)
  if (isAgain) return refuse(`/networks/${at}/ssid`, 'duplicate')
  const present = previous.find(other => other.ssid === ssid)
  const isKept = password === KEPT && present?.password === KEPT
  const why = whyNoNetwork({ ssid, password: isKept ? '' : password })
  const noPassword = `the device has no password of this network that it could keep`
  return [
    ...refuse(`/networks/${at}/ssid`, why.ssid),
    ...refuse(`/networks/${at}/password`, password === KEPT && !isKept ? noPassword : why.password),
  ]
}

/** Compares two configurations. A given password always counts as different, because it may be. */
function isSame({ country, networks }: WpaConfiguration, present: WpaConfiguration): boolean {
  return country === present.country && isDeepStrictEqual(networks, present.networks)
}
