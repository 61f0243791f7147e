import { CommandError, describeFailure } from '../../cli/failure.ts'
import { Refused } from '../../cli/service-client.ts'
import { Complaint, type Log } from '../../log.ts'
import { type AccessOptions, type Member, membersOf, membersWithoutCredentials } from '../access.ts'
import type { DeviceClient } from '../client.ts'
import { readPrivate } from '../files.ts'
import type { Fleet, FleetDevice } from '../fleet-file.ts'
import { issueFleetToken } from '../token.ts'
import { audiencesOf } from './audience.ts'
import { COMMANDS, type CommandName } from './settings.ts'

export interface CredentialsOptions extends AccessOptions {
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

interface Issuer {
  readonly name: string
  /** Its private key. */
  readonly pem: string
}

/** The token for reading, one for each device. It is replaced after half of its lifetime. */
const READING = ['admin:r', 'moderator:r']
const READING_MS = 12 * 3_600_000
/** The lifetime of a token for one command on one device. */
const WRITING_MS = 60_000
const SUBJECT = 'bridge'
const GIVE_SERIAL = 'give its serial number in the fleet file'
/** Milliseconds before the files may be read again. */
const REFRESH_MS = 30_000

/** Ways to the devices of a fleet, for a program that outlives tokens and addresses. */
export class Credentials {
  readonly #fleet: Fleet
  readonly #devices: readonly FleetDevice[]
  readonly #options: CredentialsOptions
  readonly #issuer: Issuer | undefined
  readonly #complaint: Complaint
  readonly #audiences: ReadonlyMap<string, readonly string[]>
  #members: ReadonlyMap<string, Member> = new Map()
  readonly #reading = new Map<string, { readonly token: string; readonly until: number }>()
  #refreshed = Number.NEGATIVE_INFINITY

  private constructor(
    fleet: Fleet,
    devices: readonly FleetDevice[],
    issuer: Issuer | undefined,
    options: CredentialsOptions,
  ) {
    this.#fleet = fleet
    this.#devices = devices
    this.#issuer = issuer
    this.#audiences = audiencesOf(fleet.devices)
    this.#options = options
    this.#complaint = new Complaint(options.log)
  }

  /** @throws {UsageError} if a secret cannot be read. */
  static async read(fleet: Fleet, devices: readonly FleetDevice[], options: CredentialsOptions): Promise<Credentials> {
    const given = fleet.bridge?.issuer
    const issuer = given && { name: given.name, pem: await readPrivate(given.key) }
    const credentials = new Credentials(fleet, devices, issuer, options)
    await credentials.#read()
    // A key that cannot sign is noticed here.
    if (issuer) credentials.#token(READING, ['*'], READING_MS)
    return credentials
  }

  /** A client for reading. @throws {CommandError} if the device was not found on the network, or no token can be for it alone. */
  clientOf(name: string): DeviceClient {
    const client = this.#client(name)
    return this.#issuer ? client.as(this.#readingToken(name)) : client
  }

  /** A client for a command. @throws as `clientOf`. */
  clientFor(name: string, command: CommandName): DeviceClient {
    const client = this.#client(name)
    return this.#issuer ? client.as(this.#token([COMMANDS[command]], this.#audienceOf(name), WRITING_MS)) : client
  }

  /**
   * Reads tokens and keys again, and looks for the device on the network, if old ones may be why it was not reached.
   * @returns what its owner can do about it, as the end of a sentence; empty if that is unknown.
   */
  unreached(name: string, error: unknown): string {
    const isRefused = error instanceof Refused && error.status === 401
    // If it was made before the clock of this computer was right, another one may be valid.
    if (isRefused) this.#reading.delete(name)
    this.#refresh(name, isRefused)
    const isOfAnother = this.#issuer && isRefused && /\baud\b/.test(error.message)
    return isOfAnother ? `; its token is for ${this.#audiences.get(name)?.join(' or ')}: ${GIVE_SERIAL}` : ''
  }

  #refresh(name: string, isRefused: boolean): void {
    const device = this.#devices.find(device => device.name === name)
    const now = performance.now()
    if ((!isRefused && device?.endpoint) || now - this.#refreshed < REFRESH_MS) return
    this.#refreshed = now
    this.#read().then(
      () => this.#complaint.end(),
      failure => this.#complaint.say(describeFailure(failure, true)),
    )
  }

  async #read(): Promise<void> {
    const members = this.#issuer
      ? await membersWithoutCredentials(this.#devices, this.#options)
      : await membersOf(this.#fleet, this.#devices, this.#options)
    const known = this.#members
    // One look at the network may miss a device that is there.
    const latest = (name: string, member: Member) => (member.address === '' ? (known.get(name) ?? member) : member)
    this.#members = new Map(members.map(member => [member.device.name, latest(member.device.name, member)]))
  }

  #client(name: string): DeviceClient {
    const member = this.#members.get(name)
    if (!member) throw new CommandError(`${name} is not in the fleet file`)
    return member.client()
  }

  #readingToken(name: string): string {
    const now = this.#options.now()
    const known = this.#reading.get(name)
    if (known && now < known.until && now >= known.until - READING_MS) return known.token
    const token = this.#token(READING, this.#audienceOf(name), READING_MS)
    this.#reading.set(name, { token, until: now + READING_MS / 2 })
    return token
  }

  #audienceOf(name: string): readonly string[] {
    const audience = this.#audiences.get(name) ?? []
    if (audience.length === 0)
      throw new CommandError(`no token can be for it alone, by its name or address: ${GIVE_SERIAL}`)
    return audience
  }

  #token(roles: readonly string[], audience: readonly string[], expiresInMs: number): string {
    if (!this.#issuer) return ''
    const request = { issuer: this.#issuer.name, roles, audience, expiresInMs, subject: SUBJECT }
    return issueFleetToken(this.#issuer.pem, request, this.#options.now())
  }
}
