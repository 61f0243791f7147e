import { createHash } from 'node:crypto'
import type { Stop } from '../files/watcher.ts'
import { socketsOf, type TcpSocket } from '../format/tcp-table.ts'
import { readStartup } from '../format/uxplayrc.ts'
import { readRecords, watchJournal } from './journald.ts'
import type { System } from './system.ts'
import { Unit } from './unit.ts'
import { isUnitInstalled } from './unit-files.ts'

/** UxPlay's options, as an administrator and the settings write them. The unit names it: `Environment=UXPLAYRC=`. */
export const UXPLAYRC = '/etc/uxplayrc'
/** `sha256sum` of the options that UxPlay was started with: of UXPLAYRC, and of all. Removed when UxPlay stops. */
export const STARTUP = '/run/uxplay/startup'
/** Options for the devices that were let in, until the next boot. */
const ALLOWED = '/run/receiverd/uxplay-allowed'
/** UxPlay makes it when a device connects that names its remote control, as Apple's do, until that device leaves. */
const CONNECTED = '/run/uxplay/device'
export const UNIT = 'uxplay.service'
/** By this link, systemd tells journald which run of the unit is the present one. */
const INVOCATION = `/run/systemd/units/invocation:${UNIT}`
const CONTROL_PORT = 7001
const VIDEO_PORT = 7000
const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
/** A line of 150 bytes for each connection, including those that were closed in the last minute. */
const MAX_TABLE_BYTES = 4 * 1024 * 1024
/** Bytes of UXPLAYRC that are read for its checksum. */
const MAX_RC_BYTES = 1024 * 1024
/** Lines of the log that are read: enough for a few devices. */
const LOG_LINES = 30

/** UxPlay's sockets at one moment. */
export interface Sockets {
  /** The address of each connection, of devices that mirror and of others. */
  readonly peers: readonly string[]
  /** Identifies each of these connections, in the same order. */
  readonly connections: readonly number[]
  /** The address of the device that mirrors. */
  readonly mirroring: string | undefined
  /** Identifies the connection that it mirrors through. The next device has another one. */
  readonly video: number | undefined
  /** Whether requests or connections are waiting for UxPlay. For a moment this is normal. */
  readonly isBehind: boolean
  /** Whether the port for video is open. UxPlay opens it for each session, and closes it afterwards. */
  readonly isVideoOpen: boolean
}

/** A line that UxPlay printed, and how journald tells it from all others. */
export interface JournalEntry {
  readonly text: string
  readonly cursor: string
  /** When it was printed, in milliseconds of the monotonic clock. */
  readonly at: number
}

/** UxPlay as the unit of this project runs it: one device at a time, and options that are read at the start. */
export class UxPlay {
  readonly unit: Unit
  readonly #system: System
  /** When the file of the present device was made, by the wall clock, and by the monotonic one as it was reckoned then. */
  #connected: { readonly modifiedAt: number; readonly at: number } | undefined

  constructor(system: System) {
    this.#system = system
    this.unit = new Unit(system, UNIT)
  }

  /**
   * Calls `changed` when UxPlay starts or stops, and when a device connects or leaves that names its remote control. UxPlay
   * logs every connection, so `logged` is called for the others, and whenever anything else logs.
   */
  async watch(changed: () => void, logged: () => void): Promise<Stop> {
    const stops = [STARTUP, CONNECTED].map(path => this.#system.watch(path, changed))
    stops.push(await watchJournal(this.#system, logged))
    return () => {
      for (const stop of stops) stop()
    }
  }

  async isInstalled(): Promise<boolean> {
    return isUnitInstalled(this.#system, UNIT)
  }

  /** Whether it runs, started by this project's unit. */
  async isRunning(): Promise<boolean> {
    return this.#system.exists(STARTUP)
  }

  /**
   * When the present device connected, in milliseconds of the monotonic clock; undefined if there is none, or if UxPlay has
   * made no file for it.
   */
  async connectedAt(): Promise<number | undefined> {
    const modifiedAt = await this.#system.modifiedAt(CONNECTED)
    if (modifiedAt === undefined) this.#connected = undefined
    // Reckoned once: the wall clock may be set while the device is connected.
    else if (this.#connected?.modifiedAt !== modifiedAt) {
      const ageMs = Date.now() - modifiedAt
      // A date in the future: the clock was set back meanwhile, and nobody can tell.
      const at = ageMs < 0 ? 0 : Number(process.hrtime.bigint() / 1_000_000n) - ageMs
      this.#connected = { modifiedAt, at }
    }
    return this.#connected?.at
  }

  /** Lets these devices in from the next start on, besides those that UXPLAYRC lists. */
  async setAllowed(deviceIds: readonly string[]): Promise<void> {
    if (deviceIds.length === 0) await this.#system.remove(ALLOWED)
    else await this.#system.writeAtomic(ALLOWED, deviceIds.map(id => `allow ${id}\n`).join(''), 0o644)
  }

  /** The devices that UxPlay lets in; undefined if it lets in all, or if it runs with other options than those on disk. */
  async allowed(): Promise<ReadonlySet<string> | undefined> {
    if (await this.isOutdated()) return undefined
    const { isRestricted, allowed } = readStartup((await this.#options()).toString())
    return isRestricted ? new Set(allowed) : undefined
  }

  /** Whether it runs with other options than a start would give it now. */
  async isOutdated(): Promise<boolean> {
    const [, all] = await this.#started()
    return all !== undefined && all !== sha256(await this.#options())
  }

  /** The same for UXPLAYRC alone, regardless of the devices that were let in. */
  async isRcOutdated(): Promise<boolean> {
    const [rc] = await this.#started()
    return rc !== undefined && rc !== sha256(await this.#rc())
  }

  /** Restarts it if its options have changed, unless a device mirrors, which must not be interrupted. */
  async update(): Promise<void> {
    if (await this.isRunning()) {
      if (!(await this.isOutdated())) return
      if ((await this.sockets()).mirroring !== undefined) return
    }
    await this.unit.restart()
  }

  /** Whether devices can connect to it. */
  async isListening(): Promise<boolean> {
    return (await this.#table()).some(({ port, state }) => port === CONTROL_PORT && state === 'listening')
  }

  async sockets(): Promise<Sockets> {
    const sockets = await this.#sockets()
    // The kernel prints its table in pieces, and a change in between can hide a connection.
    return sockets.isVideoOpen && sockets.mirroring === undefined ? this.#sockets() : sockets
  }

  /** The last lines that it has printed since it was started. */
  async log(): Promise<readonly JournalEntry[]> {
    const run = (await this.#system.linkTarget(INVOCATION)) ?? ''
    const lines: JournalEntry[] = []
    // Following the journal instead would be slower: journalctl looks only four times a second.
    const filter = [`_SYSTEMD_UNIT=${UNIT}`, `_SYSTEMD_INVOCATION_ID=${run}`]
    await readRecords(this.#system, LOG_LINES, filter, ({ message, cursor, monotonic }) => {
      lines.push({ text: message.trim(), cursor, at: monotonic / 1000 })
      return true
    })
    return lines.reverse()
  }

  async #sockets(): Promise<Sockets> {
    const sockets = await this.#table()
    const of = (port: number, state: TcpSocket['state']) =>
      sockets.filter(socket => socket.port === port && socket.state === state)
    const [video] = of(VIDEO_PORT, 'established')
    const control = of(CONTROL_PORT, 'established')
    return {
      peers: control.map(({ peer }) => peer),
      connections: control.map(({ inode }) => inode),
      mirroring: video?.peer,
      video: video?.inode,
      isBehind: sockets.some(({ waiting }) => waiting > 0),
      isVideoOpen: of(VIDEO_PORT, 'listening').length > 0,
    }
  }

  async #table(): Promise<readonly TcpSocket[]> {
    const tables = await Promise.all(TABLES.map(path => this.#system.readBytes(path, MAX_TABLE_BYTES)))
    return tables.flatMap(table => socketsOf(table?.toString('latin1') ?? '', [CONTROL_PORT, VIDEO_PORT]))
  }

  /** The two checksums of STARTUP; none if UxPlay does not run. */
  async #started(): Promise<readonly string[]> {
    // The folder is UxPlay's own: anything may be there.
    const bytes = await this.#system.readBytes(STARTUP).catch(() => undefined)
    return bytes?.toString('latin1').match(/^[\da-f]{64}/gm) ?? []
  }

  /** As the unit puts them together. */
  async #options(): Promise<Buffer> {
    return Buffer.concat([await this.#rc(), (await this.#system.readBytes(ALLOWED)) ?? Buffer.of()])
  }

  async #rc(): Promise<Buffer> {
    return Buffer.concat([(await this.#system.readBytes(UXPLAYRC, MAX_RC_BYTES)) ?? Buffer.of(), Buffer.from('\n')])
  }
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
