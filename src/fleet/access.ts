import type { Run } from '../../hal/os/command.ts'
import { findReceivers, type Receiver } from '../cli/discover.ts'
import { CommandError } from '../cli/failure.ts'
import { hostAndPort } from '../http/address.ts'
import { UsageError } from '../usage-error.ts'
import { DeviceClient, type Endpoints } from './client.ts'
import type { Trust } from './connection.ts'
import { readOwn, readPrivate } from './files.ts'
import type { Endpoint, Fleet, FleetDevice, Proof, Secret } from './fleet-file.ts'
import { KeyFile, type Keys } from './key-file.ts'
import { certificatesIn } from './pem.ts'
import { grouped } from './report.ts'

/** Limit on the receivers that are tried if several announce a serial number. */
const MAX_CLAIMING = 4

/** A device, and a way to it. */
export interface Member {
  readonly device: FleetDevice
  /** The address as people write it; empty if the device was not found. */
  readonly address: string
  /** @throws {CommandError} if the device was not found on the network. */
  readonly client: () => DeviceClient
  /** Its keys in the key file; undefined if its credential is somewhere else. */
  readonly keys: Keys | undefined
}

export interface AccessOptions {
  readonly run: Run
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeoutMs: number
}

/** Ways to these devices of a fleet. @throws {UsageError} for a device without a credential, or a secret that cannot be read. */
export async function membersOf(
  fleet: Fleet,
  devices: readonly FleetDevice[],
  options: AccessOptions,
): Promise<readonly Member[]> {
  const keys = fleet.keys === undefined ? new Map<string, Keys>() : await new KeyFile(fleet.keys).read()
  const token = fleet.token && (await readSecret(fleet.token, 'token', options.env))
  return waysTo(devices, options, async ({ name, key }) => {
    const own = key && (await readSecret(key, `devices.${name}.key`, options.env))
    if (own !== undefined) return { credentials: [own] }
    const known = keys.get(name)
    if (known) return { keys: known, credentials: credentialsOf(known) }
    if (token !== undefined) return { credentials: [token] }
    throw new UsageError(
      `${name} has no credential: add a line ${name},KEY to ${fleet.keys ?? 'a file that keys names'}, or give it a key`,
    )
  })
}

/** As `membersOf`, for a caller that has its own credentials: those of the fleet file are not read. */
export function membersWithoutCredentials(
  devices: readonly FleetDevice[],
  options: AccessOptions,
): Promise<readonly Member[]> {
  return waysTo(devices, options, async () => ({ credentials: [] }))
}

async function waysTo(
  devices: readonly FleetDevice[],
  { run, timeoutMs }: AccessOptions,
  access: (device: FleetDevice) => Promise<{ readonly keys?: Keys; readonly credentials: readonly string[] }>,
): Promise<readonly Member[]> {
  const placesOf = await lookUp(devices, run)
  const trusts = new Trusts()
  return Promise.all(
    devices.map(async device => {
      const { serial, proof } = device
      const { keys, credentials } = await access(device)
      const places = placesOf(device)
      const trust = await trusts.of(proof)
      return {
        device,
        address: places ? addressOf(places[0], proof) : '',
        keys,
        client: () => {
          if (!places) throw new CommandError(`no receiver with the serial number ${serial} is on this network`)
          return new DeviceClient(places, trust, credentials, timeoutMs)
        },
      }
    }),
  )
}

function credentialsOf({ key, next }: Keys): readonly string[] {
  return next === undefined ? [key] : [key, next]
}

/**
 * Returns where each device may be. Devices without an address are looked up on the network by their serial numbers. Anybody
 * can announce one: those that announce the device's pin come first.
 * @throws {CommandError} if avahi cannot be asked.
 */
export async function lookUp(
  devices: readonly FleetDevice[],
  run: Run,
): Promise<(device: FleetDevice) => Endpoints | undefined> {
  const found = devices.some(({ endpoint }) => !endpoint) ? await findReceivers(run) : []
  const bySerial = grouped(found, ({ serial }) => serial)
  return ({ endpoint, serial, proof }) => {
    if (endpoint) return [endpoint]
    const isLikely = ({ pin }: Receiver) => proof.kind === 'pin' && pin === proof.pin
    const claiming = (bySerial.get(serial) ?? []).filter(({ addresses }) => addresses.length > 0)
    const [first, ...others] = claiming
      .toSorted((one, other) => Number(isLikely(other)) - Number(isLikely(one)))
      .slice(0, MAX_CLAIMING)
      .map(({ addresses: [host = ''], port }) => ({ host, port }))
    return first && [first, ...others]
  }
}

/** The address as people write it. */
export function addressOf({ host, port }: Endpoint, { kind }: Proof): string {
  return `${kind === 'none' ? 'http' : 'https'}://${hostAndPort(host, port)}`
}

/** Reads each file of an authority once. */
export class Trusts {
  readonly #certificates = new Map<string, Promise<string>>()

  async of(proof: Proof): Promise<Trust> {
    if (proof.kind !== 'ca') return proof
    let text = this.#certificates.get(proof.path)
    if (!text) {
      text = certificatesAt(proof.path)
      this.#certificates.set(proof.path, text)
    }
    return { kind: 'ca', certificates: await text }
  }
}

/** Certificates of an authority, in PEM. @throws {UsageError} if there are none. */
export async function certificatesAt(path: string): Promise<string> {
  const { text } = await readOwn(path)
  if (certificatesIn(text).length === 0) throw new UsageError(`${path} has no certificate in PEM`)
  return text
}

/** Reads a secret, which is a single word. @param at Its place in the fleet file. @throws {UsageError} if it cannot be read. */
export async function readSecret(
  secret: Secret,
  at: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  if (secret.kind === 'text') return secret.text
  const text = (secret.kind === 'env' ? (env[secret.name] ?? '') : await readPrivate(secret.path)).trim()
  // A header allows no other characters (RFC 9110 section 5.5).
  if (/^[\x21-\x7e]+$/.test(text)) return text
  const where = secret.kind === 'env' ? `the environment variable ${secret.name}` : secret.path
  throw new UsageError(`${at}: ${where} has no key or token`)
}
