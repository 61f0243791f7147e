import { createHash } from 'node:crypto'
import type { Stop } from '../files/watcher.ts'
import { socketsOf, type TcpSocket } from '../format/tcp-table.ts'
import { readStartup } from '../format/uxplayrc.ts'
import { readRecords, watchJournal } from './journald.ts'
import type { System } from './system.ts'
import { Unit } from './unit.ts'
import { isUnitInstalled } from './unit-files.ts'
import { unitStates } from './unit-state.ts'

/** UxPlay's options, written by an administrator and by the settings. The unit names this file: `Environment=UXPLAYRC=`. */
export const UXPLAYRC = '/etc/uxplayrc'
/** `sha256sum` of the options that UxPlay was started with: first of UXPLAYRC, then of all. Removed when UxPlay stops. */
export const STARTUP = '/run/uxplay/startup'
/** Options that let admitted devices in, until the next boot. */
const ALLOWED = '/run/receiverd/uxplay-allowed'
/**
 * UxPlay makes this file when a device connects that names its remote control, as Apple's do, and removes it when the device
 * leaves.
 */
const CONNECTED = '/run/uxplay/device'
export const UNIT = 'uxplay.service'
/** The program that this project's unit starts. */
const PROGRAM = '/usr/lib/receiverd/uxplay'
/** The link by which systemd tells journald which run of the unit is the current one. */
const INVOCATION = `/run/systemd/units/invocation:${UNIT}`
/** UxPlay is found under the name that the host has when it starts. */
const HOSTNAME = '/proc/sys/kernel/hostname'
const CONTROL_PORT = 7001
const VIDEO_PORT = 7000
/** The UDP port that UxPlay opens for a device that plays sound. */
const SOUND_PORT = 7001
/** With so many connections open, UxPlay may leave others waiting: it limits their number. */
const MANY_CONNECTIONS = 10
const TCP = ['/proc/net/tcp', '/proc/net/tcp6']
const UDP = ['/proc/net/udp', '/proc/net/udp6']
/** Limit on a table in bytes. Each connection takes 150, including those that were closed in the last minute. */
const MAX_TABLE_BYTES = 4 * 1024 * 1024
/** Limit on UXPLAYRC in bytes, when it is read for its checksum. */
const MAX_RC_BYTES = 1024 * 1024
/** How many lines of the log are read: enough for a few devices; and how many to find a device that connected long ago. */
const LOG_LINES = 30
const MANY_LOG_LINES = 1_000

/** UxPlay's sockets at one moment. */
export interface Sockets {
  /** The peer address of each connection, whether or not its device mirrors. */
  readonly peers: readonly string[]
  /** Identifies each of these connections, in the same order. */
  readonly connections: readonly number[]
  /** The address of the device that mirrors. */
  readonly mirroring: string | undefined
  /** Identifies that device's video connection. The next device has another one. */
  readonly video: number | undefined
  /** Whether devices can connect. */
  readonly isListening: boolean
  /** Whether requests or connections are waiting for UxPlay. For a moment this is normal. */
  readonly isBehind: boolean
  /** Whether connections are waiting for UxPlay although it has room for them. */
  readonly hasBacklog: boolean
  /** Whether the port for video is open. UxPlay opens it for each session, and closes it afterwards. */
  readonly isVideoOpen: boolean
}

/** A line that UxPlay printed, with its cursor in the journal. */
export interface JournalEntry {
  readonly text: string
  readonly cursor: string
  /** When it was printed, in milliseconds of the monotonic clock. */
  readonly at: number
}

/** UxPlay as this project's unit runs it: it serves one device at a time, and reads its options when it starts. */
export class UxPlay {
  readonly unit: Unit
  readonly #system: System
  readonly #now: () => number
  /**
   * When the connected device's file was made: by the wall clock, and converted to the monotonic clock when it was first seen.
   */
  #connected: { readonly modifiedAt: number; readonly at: number } | undefined

  /** @param now Returns the milliseconds of the monotonic clock. */
  constructor(system: System, now = monotonicMs) {
    this.#system = system
    this.#now = now
    this.unit = new Unit(system, UNIT)
  }

  /**
   * Calls `changed` when UxPlay starts or stops, and when a device connects or leaves that names its remote control. UxPlay
   * logs every connection, so `logged` is called for other devices, and also whenever anything else logs.
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

  /** When this run of it was started, by the wall clock at that time; undefined if it does not run. */
  async startedAt(): Promise<number | undefined> {
    return this.#system.modifiedAt(STARTUP)
  }

  /** Whether systemd has stopped it, and is not about to start it again. */
  async isStopped(): Promise<boolean> {
    const unit = (await unitStates(this.#system, [UNIT])).get(UNIT)
    return unit?.state === 'inactive' && !unit.hasJob
  }

  /**
   * When the current device connected, in milliseconds of the monotonic clock; undefined if there is none, or if UxPlay made no
   * file for it.
   */
  async connectedAt(): Promise<number | undefined> {
    const modifiedAt = await this.#system.modifiedAt(CONNECTED)
    if (modifiedAt === undefined) this.#connected = undefined
    // Converted once: the wall clock may be set while the device is connected.
    else if (this.#connected?.modifiedAt !== modifiedAt) {
      const ageMs = Date.now() - Math.floor(modifiedAt)
      // A date in the future means that the clock was set back since: the real time is unknown.
      const at = ageMs < 0 ? 0 : this.#now() - ageMs
      this.#connected = { modifiedAt, at }
    }
    return this.#connected?.at
  }

  /** Lets these devices in from UxPlay's next start on, in addition to those that UXPLAYRC lists. */
  async setAllowed(deviceIds: readonly string[]): Promise<void> {
    const text = deviceIds.map(id => `allow ${id}\n`).join('')
    if (((await this.#system.readBytes(ALLOWED)) ?? '').toString() === text) return
    if (text === '') await this.#system.remove(ALLOWED)
    else await this.#system.writeAtomic(ALLOWED, text, 0o644)
  }

  /** The devices that UxPlay lets in; undefined if it lets in all, or if its options differ from those on disk. */
  async allowed(): Promise<ReadonlySet<string> | undefined> {
    if (await this.isOutdated()) return undefined
    const { isRestricted, allowed } = readStartup((await this.#options()).toString())
    return isRestricted ? new Set(allowed) : undefined
  }

  /** Whether UxPlay runs with other options than a restart would give it. */
  async isOutdated(): Promise<boolean> {
    const [, all] = await this.#started()
    return all !== undefined && all !== sha256(await this.#options())
  }

  /** The same for UXPLAYRC alone, regardless of the devices that were let in. */
  async isRcOutdated(): Promise<boolean> {
    const [rc] = await this.#started()
    return rc !== undefined && rc !== sha256(await this.#rc())
  }

  /**
   * Restarts it if its options have changed, unless a device is connected, which must not be interrupted: it may mirror, play
   * sound, or be asked for a PIN.
   * @param isRefused Whether the connected device was refused, so that a restart lets it try again.
   */
  async update(isRefused = false): Promise<void> {
    if (await this.isRunning()) {
      if (!(await this.isOutdated())) return
      if (!isRefused && (await this.connectedAt()) !== undefined) return
      if ((await this.sockets()).mirroring !== undefined) return
    }
    await this.unit.restart()
  }

  /** Whether devices can connect to it. */
  async isListening(): Promise<boolean> {
    return (await this.#sockets()).isListening
  }

  /** The same; undefined on another root, or if it runs by a unit of somebody else, which may choose other ports. */
  async isReady(): Promise<boolean | undefined> {
    if (!this.#system.isRunning || !(await this.#system.exists(PROGRAM))) return undefined
    return this.isListening()
  }

  /** Whether a device plays sound, with or without a picture. */
  async isPlaying(): Promise<boolean> {
    return (await this.#table(UDP, [SOUND_PORT])).length > 0
  }

  async sockets(): Promise<Sockets> {
    const sockets = await this.#sockets()
    // The kernel prints its table in pieces, and a change in between can hide a connection.
    return sockets.isVideoOpen && sockets.mirroring === undefined ? this.#sockets() : sockets
  }

  /** The last lines that UxPlay has printed since its start. @param isLong Whether to read many of them. */
  async log(isLong = false): Promise<readonly JournalEntry[]> {
    const run = (await this.#system.linkTarget(INVOCATION)) ?? ''
    const lines: JournalEntry[] = []
    // Following the journal instead would be slower: journalctl looks only four times a second.
    const filter = [`_SYSTEMD_UNIT=${UNIT}`, `_SYSTEMD_INVOCATION_ID=${run}`]
    await readRecords(this.#system, isLong ? MANY_LOG_LINES : LOG_LINES, filter, ({ message, cursor, monotonic }) => {
      lines.push({ text: message.trim(), cursor, at: monotonic / 1000 })
      return true
    })
    return lines.reverse()
  }

  async #sockets(): Promise<Sockets> {
    const sockets = await this.#table(TCP, [CONTROL_PORT, VIDEO_PORT])
    const of = (port: number, state: TcpSocket['state']) =>
      sockets.filter(socket => socket.port === port && socket.state === state)
    const [video] = of(VIDEO_PORT, 'established')
    const control = of(CONTROL_PORT, 'established')
    const listening = of(CONTROL_PORT, 'listening')
    return {
      peers: control.map(({ peer }) => peer),
      connections: control.map(({ inode }) => inode),
      mirroring: video?.peer,
      video: video?.inode,
      isListening: listening.length > 0,
      isBehind: sockets.some(({ waiting }) => waiting > 0),
      hasBacklog: control.length < MANY_CONNECTIONS && listening.some(({ waiting }) => waiting > 0),
      isVideoOpen: of(VIDEO_PORT, 'listening').length > 0,
    }
  }

  async #table(paths: readonly string[], ports: readonly number[]): Promise<readonly TcpSocket[]> {
    const tables = await Promise.all(paths.map(path => this.#system.readBytes(path, MAX_TABLE_BYTES)))
    return tables.flatMap(table => socketsOf(table?.toString('latin1') ?? '', ports))
  }

  /** The two checksums of STARTUP; none if UxPlay does not run. */
  async #started(): Promise<readonly string[]> {
    // The folder belongs to UxPlay: the file may hold anything.
    const bytes = await this.#system.readBytes(STARTUP).catch(() => undefined)
    return bytes?.toString('latin1').match(/^[\da-f]{64}/gm) ?? []
  }

  /** All options, and the host name as a comment, concatenated as the unit does it. */
  async #options(): Promise<Buffer> {
    const [allowed, hostname] = await Promise.all([ALLOWED, HOSTNAME].map(path => this.#system.readBytes(path)))
    return Buffer.concat([await this.#rc(), allowed ?? Buffer.of(), Buffer.from('# '), hostname ?? Buffer.of()])
  }

  async #rc(): Promise<Buffer> {
    return Buffer.concat([(await this.#system.readBytes(UXPLAYRC, MAX_RC_BYTES)) ?? Buffer.of(), Buffer.from('\n')])
  }
}

/** Milliseconds of the monotonic clock, by which journald dates lines, too. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
