import type { ApprovalOption, Engine, EngineHost, SessionState, ShowPin } from '../engine.ts'
import type { Stop } from '../files/watcher.ts'
import { type Caller, lastCaller, pinIn, refusedCaller, withoutPin } from '../format/uxplay-log.ts'
import type { System } from '../os/system.ts'
import { type JournalEntry, type Sockets, UNIT, UxPlay } from '../os/uxplay.ts'
import { Serial } from '../serial.ts'
import { uxplayApproval } from './uxplay-approval.ts'

/** Milliseconds to wait after UxPlay or a device comes or goes, so that several changes cause only one look. */
const NOTICE_MS = 20
/** Milliseconds between looks while an unknown device is connected. */
const MEETING_MS = 100
/** The same while a device is pending or mirrors, or UxPlay is stuck. */
const BUSY_MS = 1_000
/** The same while UxPlay waits for devices and something logs: it may be UxPlay, about a device that has connected. */
const LOGGED_MS = 2_000
/**
 * The same while nothing logs: a UxPlay that hangs does not log either. Reading the kernel's table of sockets takes
 * milliseconds.
 */
const IDLE_MS = 20_000
/** The same while UxPlay is stopped. Its start is noticed. */
const STOPPED_MS = 60_000
/** Limit on looks at the log in a row, and how many more each second allows. Each look starts a process. */
const MAX_LOG_LOOKS = 30
const LOG_LOOKS_PER_S = 2
/**
 * Milliseconds without accepting a request after which UxPlay counts as stuck. On a small board, showing the first picture
 * takes long.
 */
const STUCK_MS = 5_000
/** Milliseconds for which a pending device may turn out to be another one: a busy journald delivers lines late. */
const DOUBT_MS = 5_000
/**
 * Milliseconds after which a connected device counts as one for which UxPlay makes no file. Until then the file may still
 * appear, and its date tells when the device connected: earlier lines of the log are about another device.
 */
const UNFILED_MS = 500
const UNKNOWN: Caller = { name: '', model: '', deviceId: '' }

interface UxPlaySession {
  readonly id: string
  readonly deviceId: string
  /** When it entered, in milliseconds of the monotonic clock. */
  readonly enteredAt: number
  state: SessionState
}

/**
 * AirPlay through UxPlay, which serves one device at a time and knows no moderators. With the option `restrict`, it refuses
 * devices that no `allow` lists, and it reads its options only when it starts. So a device is let in by an `allow` and a
 * restart, after which it must try again, and is put out by a restart.
 */
export class UxPlayEngine implements Engine {
  readonly isExclusive = true
  readonly units = [UNIT]
  readonly approval: ApprovalOption
  readonly withoutPin = withoutPin
  readonly #uxplay: UxPlay
  #host: EngineHost | undefined
  #showPin: ShowPin | undefined
  /** The PIN that is shown. */
  #pin: string | undefined
  /** Sessions by ID. */
  readonly #entries = new Map<string, UxPlaySession>()
  /** The session of the device that is connected, if it is known. */
  #present: UxPlaySession | undefined
  /** The connection through which that device mirrors. */
  #video: number | undefined
  /** The connections that were open when that device asked; its own is among them. */
  #connections: readonly number[] = []
  /** The cursor of the last refusal that was looked at. */
  #lastRefusal: string | undefined
  /** Since when UxPlay has been stuck, in milliseconds of the monotonic clock. */
  #stuckSince: number | undefined
  /** Since when a device has been connected without a file, in milliseconds of the monotonic clock. */
  #unfiledSince: number | undefined
  /** Whether a device has connected since UxPlay started. */
  #hadDevice = false
  /** Whether UxPlay's options were still outdated after a restart, so that it is not restarted forever. */
  #restartDidNotHelp = false
  #logLooks = MAX_LOG_LOOKS
  #logLookedAt = 0
  readonly #queue = new Serial()
  #timer: NodeJS.Timeout | undefined
  #dueAt = 0
  #lookedAt = 0
  #stopWatching: Stop | undefined

  constructor(system: System) {
    this.#uxplay = new UxPlay(system)
    this.approval = uxplayApproval(system, this.#uxplay)
  }

  approvalChanged(): Promise<void> {
    return this.#uxplay.update()
  }

  /** Starts watching. A device that was let in before, but has not come yet, must ask again. */
  async start(host: EngineHost, showPin: ShowPin): Promise<void> {
    this.#host = host
    this.#showPin = showPin
    // A PIN from before a crash may still be on the screen.
    showPin(undefined)
    await this.#uxplay.setAllowed([])
    this.#stopWatching = await this.#uxplay.watch(
      () => this.#notice(),
      () => this.#lookIn(Math.max(NOTICE_MS, this.#lookedAt + LOGGED_MS - performance.now())),
    )
    this.#lookIn(NOTICE_MS)
  }

  async stop(): Promise<void> {
    this.#stopWatching?.()
    this.#stopWatching = undefined
    await this.#queue.run(async () => clearTimeout(this.#timer))
  }

  admit(id: string): Promise<void> {
    return this.#decide(id, async entry => {
      if (entry.state !== 'pending') return
      entry.state = 'admitted'
      this.#present = undefined
      try {
        await this.#restart()
      } catch (error) {
        entry.state = 'pending'
        this.#present = entry
        // UxPlay must not let the device in when it starts the next time.
        await this.#setAllowed()
        throw error
      }
      this.#host?.move(id, 'admitted')
    })
  }

  end(id: string): Promise<void> {
    return this.#decide(id, async entry => {
      const { state } = entry
      if (state === 'admitted') entry.state = 'pending'
      // This must not interrupt another device that mirrors. When that one leaves, UxPlay gets its new options.
      const isInUse = this.#present !== entry && this.#present?.state === 'active'
      try {
        await (isInUse ? this.#setAllowed() : this.#restart())
      } catch (error) {
        entry.state = state
        throw error
      }
      this.#leave(entry)
    })
  }

  /** Acts on a session, unless it turns out that its device is gone. */
  #decide(id: string, act: (entry: UxPlaySession) => Promise<void>): Promise<void> {
    return this.#queue.run(async () => {
      await this.#look()
      const entry = this.#entries.get(id)
      if (entry) await act(entry)
      this.#lookIn(NOTICE_MS)
    })
  }

  /** Restarts UxPlay, so that it reads its options. This puts out any connected device. @param isNeeded See `Unit`. */
  async #restart(isNeeded?: () => Promise<boolean>): Promise<void> {
    await this.#setAllowed()
    await this.#uxplay.unit.restart(isNeeded)
    this.#stuckSince = undefined
    this.#hadDevice = false
  }

  async #setAllowed(): Promise<void> {
    await this.#uxplay.setAllowed(this.#admitted.map(({ deviceId }) => deviceId))
  }

  get #admitted(): readonly UxPlaySession[] {
    return [...this.#entries.values()].filter(({ state }) => state === 'admitted')
  }

  /** Reacts when UxPlay or a device comes or goes. A device that a restart puts out is gone before UxPlay is back. */
  #notice(): void {
    this.#lookIn(NOTICE_MS)
    this.#uxplay.isRunning().then(
      isRunning => {
        if (!isRunning && this.#present) this.#leave(this.#present)
      },
      () => undefined,
    )
  }

  /** Looks in `ms` milliseconds, unless an earlier look is due. */
  #lookIn(ms: number): void {
    const dueAt = performance.now() + ms
    if (!this.#stopWatching || (this.#timer && this.#dueAt <= dueAt)) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#lookedAt = performance.now()
      this.#queue
        .run(() => this.#look())
        // A file that cannot be read may be about to be replaced.
        .catch(() => BUSY_MS)
        .then(next => this.#lookIn(next))
    }, ms)
  }

  /** Finds out which device is there, and restarts UxPlay if necessary. @returns milliseconds until the next look. */
  async #look(): Promise<number> {
    if (!(await this.#uxplay.isRunning())) {
      if (this.#present) this.#leave(this.#present)
      this.#ask(undefined)
      return STOPPED_MS
    }
    let sockets = await this.#uxplay.sockets()
    // A second look, because a restart may follow: a flood of connections can hide one.
    if (this.#isOver(sockets)) sockets = await this.#uxplay.sockets()
    const connectedAt = await this.#uxplay.connectedAt()
    const hasDevice = connectedAt !== undefined || sockets.peers.length > 0
    this.#hadDevice ||= hasDevice
    const now = performance.now()
    this.#unfiledSince = hasDevice && connectedAt === undefined ? (this.#unfiledSince ?? now) : undefined
    const isDated = now - (this.#unfiledSince ?? Number.NEGATIVE_INFINITY) >= UNFILED_MS
    if (this.#present && this.#isOver(sockets)) {
      this.#leave(this.#present)
      // At once, even if the next device is there already: with the old options, it might get in without asking.
      if (await this.#uxplay.isOutdated().catch(() => true)) {
        await this.#restart()
        return BUSY_MS
      }
    }
    if (connectedAt === undefined || sockets.mirroring !== undefined) this.#ask(undefined)
    if (sockets.mirroring !== undefined) {
      if (this.#present?.state !== 'active') await this.#enterActive(sockets.mirroring)
      this.#video = sockets.video
      return BUSY_MS
    }
    if (this.#present && !hasDevice) this.#leave(this.#present)
    if (hasDevice && isDated && this.#isInDoubt(sockets)) await this.#meet(sockets, connectedAt ?? 0)
    await this.#repair(hasDevice, sockets)
    if (this.#stuckSince !== undefined || this.#present) return BUSY_MS
    return hasDevice ? MEETING_MS : IDLE_MS
  }

  /** Whether the device that mirrored or asked has left. Another one may have taken its place. */
  #isOver({ video, connections }: Sockets): boolean {
    if (this.#present?.state === 'active') return video !== this.#video
    // If no connection was seen, it is unknown which one to look for.
    if (this.#present?.state !== 'pending' || this.#connections.length === 0) return false
    return !this.#connections.some(inode => connections.includes(inode))
  }

  /** Whether the connected device may be another one than `#present`. */
  #isInDoubt({ peers }: Sockets): boolean {
    if (!this.#present || peers.length > 1) return true
    return performance.now() - this.#present.enteredAt < DOUBT_MS
  }

  /** Shows the PIN that a connected device asks for, and registers the device as pending if UxPlay refused it. */
  async #meet({ peers, connections }: Sockets, connectedAt: number): Promise<void> {
    const now = performance.now()
    this.#logLooks = Math.min(MAX_LOG_LOOKS, this.#logLooks + ((now - this.#logLookedAt) / 1000) * LOG_LOOKS_PER_S)
    this.#logLookedAt = now
    if (this.#logLooks < 1) return
    this.#logLooks--
    const lines = await this.#log()
    const first = lines.findIndex(({ at }) => at >= connectedAt)
    // Without an earlier line, some of the later ones may be missing.
    this.#ask(first > 0 ? pinIn(lines.slice(first).map(({ text }) => text)) : undefined)
    const refused = refusedCaller(lines.map(({ text }) => text))
    const line = refused && lines[refused.line]
    // Messages from before it connected are about another device.
    if (!refused || !line || line.at < connectedAt) return
    // A busy journald dates messages too late.
    if (refused.newer > 0 && (await this.#countSince(connections)) <= refused.newer) {
      this.#lastRefusal = undefined
      if (this.#present?.state === 'pending' && this.#present.deviceId === refused.deviceId) this.#leave(this.#present)
      return
    }
    if (line.cursor === this.#lastRefusal) return
    this.#lastRefusal = line.cursor
    if (this.#present?.deviceId === refused.deviceId) return
    // The previous device left unnoticed, because another connection was open.
    if (this.#present) this.#leave(this.#present)
    const address = new Set(peers).size === 1 ? (peers[0] ?? '') : ''
    this.#present = this.#enter(refused, address, 'pending')
    this.#connections = connections
  }

  /** The number of different connections since these were read, these included. */
  async #countSince(connections: readonly number[]): Promise<number> {
    return new Set([...connections, ...(await this.#uxplay.sockets()).connections]).size
  }

  #ask(pin: string | undefined): void {
    if (pin === this.#pin) return
    this.#pin = pin
    this.#showPin?.(pin)
  }

  /** Registers a device that mirrors, because it was let in or need not ask. */
  async #enterActive(address: string): Promise<void> {
    const lines = (await this.#log()).map(({ text }) => text)
    const allowed = await this.#uxplay.allowed().catch(() => undefined)
    const caller = lastCaller(lines, allowed)
    const admitted = this.#admitted
    // Without a line about it, the device can only be one that was let in.
    const entry = caller ? admitted.find(({ deviceId }) => deviceId === caller.deviceId) : admitted[0]
    if (this.#present) this.#leave(this.#present)
    if (entry) {
      entry.state = 'active'
      this.#host?.move(entry.id, 'active')
      // UxPlay goes on letting it in until the next restart, which the changed options will cause.
      await this.#setAllowed()
    }
    this.#present = entry ?? this.#enter(caller ?? UNKNOWN, address, 'active')
  }

  /** Restarts UxPlay if it is stuck, or if its options were changed while a device mirrored. */
  async #repair(hasDevice: boolean, { isBehind, isVideoOpen }: Sockets): Promise<void> {
    const now = performance.now()
    // If UxPlay forgot to close a port, the next device would send its picture to nobody.
    const isStuck = isBehind || (isVideoOpen && !hasDevice && this.#hadDevice)
    this.#stuckSince = isStuck ? (this.#stuckSince ?? now) : undefined
    if (this.#stuckSince !== undefined && now - this.#stuckSince >= STUCK_MS) {
      await this.#restart()
      this.#host?.warn('UxPlay was restarted, because it no longer took connections')
      return
    }
    // Decisions must be possible even if the options cannot be read.
    const isStale = () => this.#uxplay.isOutdated().catch(() => false)
    const isOutdated = !hasDevice && (await isStale())
    if (isOutdated && !this.#restartDidNotHelp) await this.#restart(isStale)
    this.#restartDidNotHelp = isOutdated
  }

  #enter({ name, model, deviceId }: Caller, address: string, state: SessionState): UxPlaySession | undefined {
    const id = this.#host?.enter(this, { protocol: 'airplay', name, model, deviceId, address }, state)
    if (id === undefined) return undefined
    const entry = { id, deviceId, enteredAt: performance.now(), state }
    this.#entries.set(id, entry)
    return entry
  }

  #leave(entry: UxPlaySession): void {
    this.#entries.delete(entry.id)
    if (this.#present === entry) this.#present = undefined
    this.#host?.leave(entry.id)
  }

  /** Without a journal, devices have no names, and none can ask. */
  #log(): Promise<readonly JournalEntry[]> {
    return this.#uxplay.log().catch(() => [])
  }
}
