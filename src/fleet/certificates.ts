import type { X509Certificate } from 'node:crypto'
import { pinOf } from '../../hal/format/certificate.ts'
import { parseAddress } from '../../hal/format/ip.ts'
import { printable } from '../log.ts'
import { type Member, Trusts } from './access.ts'
import { Mismatch } from './connection.ts'
import type { FleetDevice } from './fleet-file.ts'
import { causeIn, type Result } from './outcome.ts'
import { certificatesIn } from './pem.ts'
import { FAILURE, grouped, INTERRUPTED, SUCCESS } from './report.ts'
import { eachOf, type RollOutOptions } from './waves.ts'

/** Limit on a certificate in bytes: a device's own has about 500. */
const MAX_BYTES = 16 * 1024

/**
 * Collects the certificates by which a program that knows no pins recognizes devices: those of their authorities, and each
 * other device's own, once it has proved to match the pin in the fleet file.
 * @param fleet All devices, of which `members` are asked.
 * @param before The certificates that an earlier run found: a device that is not asked, or cannot be reached, keeps its own.
 * Undefined if those of `members` are enough.
 * @returns the certificates in PEM, and the exit status.
 */
export async function certificatesOf(
  members: readonly Member[],
  fleet: readonly FleetDevice[],
  before: string | undefined,
  options: Pick<RollOutOptions, 'limit' | 'stop' | 'halted' | 'ui'>,
): Promise<readonly [pem: string, status: number]> {
  const { stop, ui } = options
  const names = new Names(fleet)
  const earlier = certificatesIn(before ?? '')
  const byPin = grouped(earlier, ({ publicKey }) => pinOf(publicKey))
  const byFingerprint = grouped(earlier, ({ fingerprint256 }) => fingerprint256)
  const trusts = new Trusts()
  /** The certificates that are known without asking the device. */
  const known = async (device: FleetDevice): Promise<readonly X509Certificate[]> => {
    const trust = await trusts.of(device.proof)
    if (trust.kind === 'none') return []
    if (trust.kind === 'ca') return certificatesIn(trust.certificates)
    const own = trust.kind === 'pin' ? byPin.get(trust.pin) : byFingerprint.get(trust.fingerprint)
    return (own ?? []).filter(certificate => names.whyNot(certificate, device) === undefined)
  }
  const found = new Map<FleetDevice, readonly X509Certificate[]>()
  const kept = before === undefined ? members.map(({ device }) => device) : fleet
  for (const device of kept) found.set(device, await known(device))
  const ask = async ({ device, client }: Member): Promise<Result> => {
    const { proof } = device
    if (proof.kind === 'none') {
      ui.note(`${device.name}: it is reached by http, and has no certificate`)
      return { state: 'unchanged' }
    }
    if (proof.kind === 'ca') return { state: 'done' }
    try {
      const certificate = await client().certificate()
      const why = names.whyNot(certificate, device)
      if (why !== undefined) throw new Mismatch(why)
      found.set(device, [certificate])
    } catch (error) {
      if (found.get(device)?.length === 0 || error instanceof Mismatch) throw error
      ui.note(`${device.name}: ${causeIn(error)}; the certificate that was in the file stays`)
    }
    return { state: 'done' }
  }
  const progress = (done: number) => `Asking: ${done} of ${members.length}`
  const outcomes = await eachOf(members, options, progress, ask)
  const pem = [...new Set([...found.values()].flat().map(String))].join('')
  if (stop.aborted) return [pem, INTERRUPTED]
  return [pem, outcomes.some(({ state }) => state === 'failed') ? FAILURE : SUCCESS]
}

/** The names in a certificate (RFC 5280 section 4.2.1.6), as Node writes them: a name with other characters is in quotes. */
const NAME = /(?:DNS|IP Address):([^,"\s]+)/g

/**
 * The hosts of a fleet. A program trusts a certificate for every name in it, and every certificate that it has signed: a device
 * must not have one with which it could pose as another.
 */
class Names {
  readonly #owners = new Map<string, FleetDevice[]>()

  constructor(fleet: readonly FleetDevice[]) {
    for (const device of fleet) {
      if (!device.endpoint) continue
      const host = canonical(device.endpoint.host)
      this.#owners.set(host, [...(this.#owners.get(host) ?? []), device])
    }
  }

  /** Why a device must not have this certificate. */
  whyNot({ ca, raw, subjectAltName = '' }: X509Certificate, device: FleetDevice): string | undefined {
    if (raw.length > MAX_BYTES) return 'its certificate has no end'
    if (ca) return 'its certificate may sign others (CA:TRUE)'
    // Go takes a certificate without extensions for an authority's.
    if (subjectAltName === '') return 'its certificate has no names (subjectAltName)'
    const own = canonical(device.endpoint?.host ?? '')
    for (const [, name = ''] of subjectAltName.matchAll(NAME)) {
      const other = this.#ownersOf(canonical(name), own).find(owner => !isSameProof(owner, device))
      if (other) return `its certificate is also for ${printable(name)}, which is ${other.name}`
    }
    return undefined
  }

  /** @param own The device's own host. Others at the same host differ only by their ports, which no certificate names. */
  #ownersOf(name: string, own: string): readonly FleetDevice[] {
    if (!name.startsWith('*')) return name === own ? [] : (this.#owners.get(name) ?? [])
    return [...this.#owners].flatMap(([host, owners]) => (host !== own && host.endsWith(name.slice(1)) ? owners : []))
  }
}

/** Several devices behind one certificate, such as a proxy's, are one device to a program that trusts it. */
function isSameProof({ proof: a }: FleetDevice, { proof: b }: FleetDevice): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** Programs that check a certificate take an IPv4 address for the same in its form as an IPv6 address (RFC 4291 §2.5.5.2). */
function canonical(host: string): string {
  const address = parseAddress(host)
  if (!address) return host.toLowerCase().replace(/\.$/, '')
  const { family, bits } = address
  return bits >> 32n === 0xffffn ? `4 ${bits & 0xffffffffn}` : `${family} ${bits}`
}
