import { CommandError, describeFailure } from '../../cli/failure.ts'
import { Refused } from '../../cli/service-client.ts'
import { Complaint, type Log } from '../../log.ts'
import { type AccessOptions, type Member, membersOf, membersWithoutCredentials } from '../access.ts'
import type { DeviceClient } from '../client.ts'
import { readPrivate } from '../files.ts'
import type { Fleet, FleetDevice } from '../fleet-file.ts'
import { issueFleetToken } from '../token.ts'
import { COMMANDS, type CommandName } from './settings.ts'
import { type DeviceState, objectOf, textOf } from './state.ts'

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

/** For reading, everywhere: it is made anew when half of its time is over. */
const READING = ['admin:r', 'moderator:r']
const READING_MS = 12 * 3_600_000
/** For one command, on one device. */
const WRITING_MS = 60_000
const SUBJECT = 'bridge'
/** Milliseconds between two times that the files are read again. */
const REFRESH_MS = 30_000

/** Ways to the devices of a fleet, for a program that outlives tokens and addresses. */
export class Credentials {
  readonly #fleet: Fleet
  readonly #devices: readonly FleetDevice[]
  readonly #options: CredentialsOptions
  readonly #issuer: Issuer | undefined
  readonly #complaint: Complaint
  #members: ReadonlyMap<string, Member> = new Map()
  #reading = { token: '', until: 0 }
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
    this.#options = options
    this.#complaint = new Complaint(options.log)
  }

  /** @throws {UsageError} if a secret cannot be read. */
  static async read(fleet: Fleet, devices: readonly FleetDevice[], options: CredentialsOptions): Promise<Credentials> {
    const given = fleet.bridge?.issuer
    const issuer = given && { name: given.name, pem: await readPrivate(given.key) }
    const credentials = new Credentials(fleet, devices, issuer, options)
    await credentials.#read()
    // One that cannot sign is found out here.
    if (issuer) credentials.#readingToken()
    return credentials
  }

  /** For reading. @throws {CommandError} if the device was not found on the network. */
  clientOf(name: string): DeviceClient {
    const client = this.#client(name)
    return this.#issuer ? client.as(this.#readingToken()) : client
  }

  /**
   * For a command.
   * @param others The other devices.
   * @throws {CommandError} as `clientOf`, or if no token can be made for this device alone.
   */
  clientFor(name: string, command: CommandName, state: DeviceState, others: readonly DeviceState[]): DeviceClient {
    const client = this.#client(name)
    if (!this.#issuer) return client
    const known = this.#devices.find(device => device.name === name)?.serial ?? ''
    const audience = known === '' ? audienceOf(state) : `serial:${known}`
    if (audience === undefined) throw new CommandError('neither its serial number nor its host name is known')
    // It may be lying about who it is, to get a token for another one.
    const isTaken =
      others.some(other => audienceOf(other) === audience) ||
      this.#devices.some(device => device.name !== name && `serial:${device.serial}` === audience)
    if (isTaken) throw new CommandError(`another device has the same ${audience.replace(/:.*/, '')}; it gets no token`)
    return client.as(this.#token([COMMANDS[command]], [audience], WRITING_MS))
  }

  /** Reads tokens and keys again, and looks for the device, if that may be why it was not reached. */
  unreached(name: string, error: unknown): void {
    const device = this.#devices.find(device => device.name === name)
    const isRefused = error instanceof Refused && error.status === 401
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
    this.#members = new Map(members.map(member => [member.device.name, member]))
  }

  #client(name: string): DeviceClient {
    const member = this.#members.get(name)
    if (!member) throw new CommandError(`${name} is not in the fleet file`)
    return member.client()
  }

  #readingToken(): string {
    const now = this.#options.now()
    if (now >= this.#reading.until || now < this.#reading.until - READING_MS)
      this.#reading = { token: this.#token(READING, [], READING_MS), until: now + READING_MS / 2 }
    return this.#reading.token
  }

  #token(roles: readonly string[], audience: readonly string[], expiresInMs: number): string {
    if (!this.#issuer) return ''
    const request = { issuer: this.#issuer.name, roles, audience, expiresInMs, subject: SUBJECT }
    return issueFleetToken(this.#issuer.pem, request, this.#options.now())
  }
}

/** As the device says itself. */
function audienceOf({ settings }: DeviceState): string | undefined {
  const { hardware, hostname } = objectOf(typeof settings === 'string' ? undefined : settings)
  const [serial, host] = [textOf(objectOf(hardware).serial), textOf(hostname)]
  return serial !== '' ? `serial:${serial}` : host !== '' ? `host:${host}` : undefined
}
