import type { Receiver } from '../cli/discover.ts'
import { hostAndPort } from '../http/address.ts'

/** Anything else in a host name becomes a hyphen. */
const NOT_IN_NAMES = /[^A-Za-z0-9._-]+/g
const MAX_NAME = 60

/** A fleet file with these receivers. All that is in it is what they claim: it says so. */
export function fleetFileOf(receivers: readonly Receiver[]): string {
  const names = new Set<string>()
  const devices = receivers.map(receiver => {
    const name = freeName(receiver, names)
    names.add(name)
    return deviceOf(name, receiver)
  })
  return `# Receivers on this network, by their own announcements. Anybody can announce anything: compare the pins.
keys: keys.csv
devices:
${devices.join('')}`
}

function deviceOf(name: string, { name: shown, model, serial, addresses, port, pin }: Receiver): string {
  const place = hostAndPort(addresses[0] ?? '', port)
  const lines = [
    `  ${JSON.stringify(name)}: # ${[shown, model].filter(text => text !== '').join(', ')}`.trimEnd(),
    `    address: ${JSON.stringify(`${pin === '' ? 'http' : 'https'}://${place}`)}`,
    ...(serial === '' ? [] : [`    serial: ${JSON.stringify(serial)}`]),
    ...(pin === '' ? [] : [`    pin: ${JSON.stringify(`sha256//${pin}`)}`]),
  ]
  return lines.map(line => `${line}\n`).join('')
}

/** Its host name; with a number where another one has that. */
function freeName({ hostname }: Receiver, taken: ReadonlySet<string>): string {
  const own = hostname
    .replace(/\.local\.?$/, '')
    .replace(NOT_IN_NAMES, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
  const name = own.slice(0, MAX_NAME) || 'receiver'
  for (let number = 2; ; number++) {
    const candidate = number === 2 ? name : `${name}-${number - 1}`
    if (!taken.has(candidate)) return candidate
  }
}
