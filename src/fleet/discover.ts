import { MAX_RECEIVERS, type Receiver } from '../cli/discover.ts'
import { hostAndPort } from '../http/address.ts'
import { grouped } from './report.ts'

/** Anything else in a host name becomes a hyphen. */
const NOT_IN_NAMES = /[^A-Za-z0-9._-]+/g
const MAX_NAME = 60

/** A fleet file with these receivers. Everything in it is only what they claim, and it says so. */
export function fleetFileOf(receivers: readonly Receiver[]): string {
  const names = new Set<string>()
  const claimed = grouped(receivers, nameOf)
  const taken = new Set<string>()
  const devices = receivers.map(receiver => {
    const name = freeName(receiver, names)
    names.add(name)
    const isAlone = claimed.get(nameOf(receiver))?.length === 1
    const own = [placeOf(receiver), receiver.serial].filter(text => text !== '')
    const isTwin = own.some(text => taken.has(text))
    for (const text of own) taken.add(text)
    const lines = deviceOf(name, receiver, isAlone)
    return isTwin ? twinOf(lines) : lines
  })
  return `# Receivers on this network, by their own announcements. Anybody can announce anything: compare the pins.
${receivers.length < MAX_RECEIVERS ? '' : `# There may be more: the list ends after ${MAX_RECEIVERS}.\n`}keys: keys.csv
devices:
${devices.join('')}`
}

/** A fleet file must not have two devices at one address, or with one serial number. */
function twinOf(lines: string): string {
  const why = '  # The same address or serial number as above. Of these devices, use the one whose pin is right:\n'
  return why + lines.replace(/^ {2}/gm, '  # ')
}

function placeOf({ addresses: [address = ''], port }: Receiver): string {
  return hostAndPort(address, port)
}

/** @param isAlone Whether no other receiver claims its host name. */
function deviceOf(name: string, receiver: Receiver, isAlone: boolean): string {
  const { name: shown, model, serial, pin } = receiver
  const lines = [
    // Otherwise, the key in the key file would go to the receiver that was announced first.
    ...(isAlone
      ? []
      : ['  # Several claim this host name: find out by the pin which one it is, before a key is sent.']),
    ...(pin === '' ? ['  # Without TLS: its key is sent in clear, to whoever answers there.'] : []),
    `  ${JSON.stringify(name)}: # ${[shown, model].filter(text => text !== '').join(', ')}`.trimEnd(),
    `    address: ${JSON.stringify(`${pin === '' ? 'http' : 'https'}://${placeOf(receiver)}`)}`,
    ...(serial === '' ? [] : [`    serial: ${JSON.stringify(serial)}`]),
    ...(pin === '' ? [] : [`    pin: ${JSON.stringify(`sha256//${pin}`)}`]),
  ]
  return lines.map(line => `${line}\n`).join('')
}

/** The receiver's host name, with a number if another one has it. */
function freeName(receiver: Receiver, taken: ReadonlySet<string>): string {
  const name = nameOf(receiver)
  for (let number = 2; ; number++) {
    const candidate = number === 2 ? name : `${name}-${number - 1}`
    if (!taken.has(candidate)) return candidate
  }
}

function nameOf({ hostname }: Receiver): string {
  const own = hostname
    .replace(/\.local\.?$/, '')
    .replace(NOT_IN_NAMES, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
  return own.slice(0, MAX_NAME) || 'receiver'
}
