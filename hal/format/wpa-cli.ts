/** The output of wpa_cli(8): lines `NAME=VALUE`, where names of networks have the escapes of `printfDecode`. */
import { decodeLossless } from './lossless.ts'
import { printfDecode } from './printf.ts'
import { MAX_SSID_BYTES } from './wpa-supplicant.ts'

export const SECURITIES = ['open', 'psk', 'sae', 'enterprise', 'other'] as const
export type Security = (typeof SECURITIES)[number]

/** A network that was found, as its strongest station describes it. */
export interface FoundNetwork {
  readonly ssid: string
  readonly signalDbm: number
  readonly security: Security
}

/** A station of a network. */
export interface Station extends FoundNetwork {
  /** wpa_supplicant's ID of the station. IDs ascend. */
  readonly id: number
  /** Seconds since it was seen last. */
  readonly ageS: number
}

/** No radio signal is this strong: a driver that reports 0 or more counts in another unit. */
const MAX_DBM = 0
/** The lines after a station, and after the last one of all, with the mask below. */
const DELIMITERS: readonly string[] = ['====', '####']

/** For `wpa_cli bss`, the bits of bss.h: id, level, age, flags, ssid and the delimiter. */
export const STATION_MASK = '0x21a81'

/** The name of the current network; "" if there is none, or if the name is not UTF-8. */
export function connectedIn(status: string): string {
  const values = valuesIn(status.split('\n'))
  return values.get('wpa_state') === 'COMPLETED' ? (ssidIn(values) ?? '') : ''
}

/** The signal strength from `signal_poll` in dBm; undefined if the driver cannot tell. */
export function signalIn(text: string): number | undefined {
  return dbm(valuesIn(text.split('\n')).get('RSSI'))
}

/** The stations in the answer to `bss RANGE=…`, and the last ID, with which the next range begins. */
export function stationsIn(text: string): {
  readonly stations: readonly Station[]
  readonly lastId: number | undefined
} {
  const stations: Station[] = []
  let lastId: number | undefined
  let lines: string[] = []
  for (const line of text.split('\n')) {
    if (!DELIMITERS.includes(line)) {
      lines.push(line)
      continue
    }
    const values = valuesIn(lines)
    lines = []
    const id = Number(values.get('id'))
    if (!Number.isInteger(id)) continue
    lastId = id
    const [ssid, signalDbm] = [ssidIn(values), dbm(values.get('level'))]
    if (ssid === undefined || signalDbm === undefined) continue
    const ageS = Number(values.get('age')) || 0
    stations.push({ id, ssid, signalDbm, ageS, security: securityOf(values.get('flags') ?? '') })
  }
  return { stations, lastId }
}

/**
 * The networks of these stations, strongest first, at most `limit`. Two with the same name but different protection are both
 * listed: one of them may be an impostor.
 */
export function networksOf(stations: readonly FoundNetwork[], limit: number): readonly FoundNetwork[] {
  const strongest = new Map<string, FoundNetwork>()
  for (const { ssid, signalDbm, security } of stations) {
    const key = `${security} ${ssid}`
    const known = strongest.get(key)
    if (!known || known.signalDbm < signalDbm) strongest.set(key, { ssid, signalDbm, security })
  }
  return [...strongest.values()].sort((one, other) => other.signalDbm - one.signalDbm).slice(0, limit)
}

/** The security in flags such as `[WPA2-PSK+SAE-CCMP][ESS]`. If a network offers several kinds, the simplest counts. */
function securityOf(flags: string): Security {
  if (/[-+]PSK/.test(flags) || /FT\/PSK/.test(flags)) return 'psk'
  if (/SAE/.test(flags)) return 'sae'
  if (/EAP/.test(flags)) return 'enterprise'
  return /WPA|RSN|WEP|OWE-CCMP|OWE-GCMP|DPP|OSEN|IBSS|MESH/.test(flags) ? 'other' : 'open'
}

function valuesIn(lines: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    lines.flatMap(line => {
      const cut = line.indexOf('=')
      return cut < 0 ? [] : [[line.slice(0, cut), line.slice(cut + 1)] as const]
    }),
  )
}

/** The name of a network; undefined if it is hidden, as an empty name or as zeros, or is not UTF-8. */
function ssidIn(values: ReadonlyMap<string, string>): string | undefined {
  const bytes = printfDecode(values.get('ssid') ?? '')
  if (bytes.length === 0 || bytes.length > MAX_SSID_BYTES || bytes.every(byte => byte === 0)) return undefined
  const text = decodeLossless(bytes)
  return text.isWellFormed() ? text : undefined
}

function dbm(text: string | undefined): number | undefined {
  const value = Number(text || Number.NaN)
  return Number.isInteger(value) && value < MAX_DBM ? value : undefined
}
