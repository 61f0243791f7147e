/** A network to join. */
export interface WifiNetwork {
  /** 1 to 32 bytes of UTF-8. */
  readonly ssid: string
  /** A passphrase of 8 to 63 ASCII characters, or a key of 64 hexadecimal digits; "" for an open network. */
  readonly password: string
  /** ISO 3166-1, two capital letters; "" if unknown. It decides which channels may be used. */
  readonly country: string
}

const MAX_SSID_BYTES = 32
const COUNTRY = /^[A-Z]{2}$/
/** IEEE 802.11: a passphrase. */
const PASSPHRASE = /^[ -~]{8,63}$/
/** The key itself. */
const KEY = /^[0-9A-Fa-f]{64}$/

/** The faults of a network, by its members: each a predicate, such as `must be …`. */
export function whyNoNetwork({ ssid, password, country }: WifiNetwork): Readonly<Partial<WifiNetwork>> {
  return {
    ...((ssid === '' || Buffer.byteLength(ssid) > MAX_SSID_BYTES) && {
      ssid: `must be 1 to ${MAX_SSID_BYTES} bytes`,
    }),
    ...(!(password === '' || PASSPHRASE.test(password) || KEY.test(password)) && {
      password:
        'must be 8 to 63 plain letters, digits, blanks and punctuation marks, without accents and curly quotes; or a key of 64 hexadecimal digits',
    }),
    ...(!(country === '' || COUNTRY.test(country)) && {
      country: 'must be the two letters of a country, such as DE',
    }),
  }
}

/** The text of a wpa_supplicant.conf(5) with one network, for which `whyNoNetwork` has found nothing. */
export function wpaConfiguration({ ssid, password, country }: WifiNetwork): string {
  const lines = [
    // As hexadecimal digits, so that it may hold anything.
    `ssid=${Buffer.from(ssid).toString('hex')}`,
    ...credentialOf(password),
    // Finds the network even if it hides its name.
    'scan_ssid=1',
  ]
  const head = country === '' ? [] : [`country=${country}`]
  return ['# From receiver.txt.', ...head, 'network={', ...lines.map(line => `\t${line}`), '}', ''].join('\n')
}

function credentialOf(password: string): readonly string[] {
  if (password === '') return ['key_mgmt=NONE']
  if (KEY.test(password)) return [`psk=${password}`]
  // A passphrase ends at the last quote of its line. WPA2, and WPA3 where the adapter has it.
  return [`psk="${password}"`, 'key_mgmt=WPA-PSK SAE', 'ieee80211w=1']
}
