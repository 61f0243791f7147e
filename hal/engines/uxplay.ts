import type { ApprovalOption, EndReason, Engine, EngineHost, SessionState, ShowPin } from '../engine.ts'
import type { Stop } from '../files/watcher.ts'
import {
  type Caller,
  hasComeIn,
  hasSpoken,
  isPinAnswered,
  lastCaller,
  pinIn,
  refusedCaller,
  SERVER_START,
  withoutPin,
} from '../format/uxplay-log.ts'
import type { System } from '../os/system.ts'
import { type JournalEntry, monotonicMs, type Sockets, UNIT, UxPlay } from '../os/uxplay.ts'
import { Serial } from '../serial.ts'
import { uxplayApproval } from './uxplay-approval.ts'
import { Connections, isGone } from './uxplay-connections.ts'

/** Milliseconds to wait after UxPlay or a device comes or goes, so that several changes cause only one look. */
const NOTICE_MS = 20
/** Milliseconds between looks while an unknown device is connected. */
const MEETING_MS = 100
/** The same while a device is pending or mirrors, a PIN is shown, or UxPlay is stuck. */
const BUSY_MS = 1_000
/** Milliseconds after which an unknown device that does nothing new is looked at no more often than UxPlay without devices. */
const QUIET_MS = 30_000
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
/** The same while a device mirrors, which a restart would interrupt. */
const HUNG_MS = 30_000
/** The same until it listens for the first time: on a small board, GStreamer looks for its plugins for a minute. */
const STARTING_MS = 180_000
/** Milliseconds for which UxPlay may be stopped until devices that were let in must ask again. */
const STOPPED_GRACE_MS = 5_000
/** Milliseconds for which a pending device may turn out to be another one: a busy journald delivers lines late. */
const DOUBT_MS = 5_000
/**
 * Milliseconds after which a connected device counts as one for which UxPlay makes no file. Until then the file may still
 * appear, and its date tells when the device connected: earlier lines of the log are about another device.
 */
const UNFILED_MS = 500
/** Milliseconds for which a PIN is shown, as the screen does it, and for which a device may take to come in. */
const PIN_MS = 120_000
/** How long it may take after a restart for that reason that let no device in: it may connect again and again. */
const AGAIN_MS = 3_600_000
const UNKNOWN: Caller = { name: '', model: '', deviceId: '' }

interface UxPlaySession {
  readonly id: string
  readonly deviceId: string
  readonly address: string
  /** When it entered, in milliseconds of the monotonic clock. */
  readonly enteredAt: number
  /** When its device connected to ask, in the same way; undefined if that is unknown. */
  readonly connectedAt: number | undefined
  state: SessionState
  /** Since when UxPlay has done what that state says, in the same way. */
  since: number
}

/** The device that is connected, whether or not it has a session. All times are in milliseconds of the monotonic clock. */
interface Visit {
  /** When it connected, at the earliest. */
  readonly since: number
  /** Its connection, if UxPlay made no file for it. Otherwise `since` is exact. */
  readonly inode: number | undefined
  /** Connections of which one is its own. */
  readonly inodes: readonly number[]
  /** Since when it has been waited for. */
  waitedSince: number
  /** How it has introduced itself. It may say so again, as another one. */
  caller: Caller | undefined
  /** The IDs by which it has introduced itself, of those that were let in: it may make up any number of others. */
  readonly callers: Set<string>
  /** Whether UxPlay has done more for it than to ask for a PIN. From then on, it notices when the device is gone. */
  isIn: boolean
  /** Whether UxPlay has answered it, and turns others away. */
  hasSpoken: boolean
  /** The PIN that it must enter, and when it was asked for that, or has entered it. */
  pin: string | undefined
  pinAt: number
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
  readonly #now: () => number
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
  /** The connections through one of which that device asked. */
  #own: readonly number[] = []
  readonly #connections = new Connections()
  #visit: Visit | undefined
  /** The device that was connected when UxPlay's options became outdated, by `Visit.since`. It is not interrupted. */
  #heldFor: number | undefined
  /** Since when UxPlay has not run. */
  #stoppedSince: number | undefined
  /** The cursor of the last refusal that was looked at, and whether there was no room for its device. */
  #lastRefusal: string | undefined
  #wasTurnedAway = false
  /** Since when UxPlay has been stuck, in milliseconds of the monotonic clock. */
  #stuckSince: number | undefined
  /** Whether it was restarted for that, and is still stuck. */
  #isStuckAgain = false
  /** The start after which UxPlay was last seen to listen. */
  #listenedSince: number | undefined
  /** Since when a device has been connected without a file, in milliseconds of the monotonic clock. */
  #unfiledSince: number | undefined
  /** Whether a device has connected since UxPlay started. */
  #hadDevice = false
  /** Whether UxPlay's options were still outdated after a restart, so that it is not restarted forever. */
  #restartDidNotHelp = false
  /** Milliseconds for which a device may take to come in. */
  #patienceMs = PIN_MS
  #logLooks = MAX_LOG_LOOKS
  #logLookedAt = 0
  readonly #queue = new Serial()
  #timer: NodeJS.Timeout | undefined
  #dueAt = 0
  #lookedAt = 0
  #stopWatching: Stop | undefined

  /** @param now Returns the milliseconds of the monotonic clock. */
  constructor(system: System, now = monotonicMs) {
    this.#now = now
    this.#uxplay = new UxPlay(system, now)
    this.approval = uxplayApproval(system, this.#uxplay)
  }

  approvalChanged(): Promise<void> {
    return this.#uxplay.update(this.#present?.state === 'pending')
  }

  /** Starts watching. A device that was let in before, but has not come yet, must ask again. */
  async start(host: EngineHost, showPin: ShowPin): Promise<void> {
    this.#host = host
    this.#showPin = showPin
    // A PIN from before a crash may still be on the screen.
    showPin(undefined)
    // Changed options may be waiting until the device that is connected has left.
    if (await this.#uxplay.isOutdated().catch(() => true)) this.#heldFor = await this.#uxplay.connectedAt()
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
    return this.#decide(async () => {
      const entry = this.#entries.get(id)
      if (entry?.state !== 'pending') return
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
      entry.since = this.#now()
      this.#host?.move(id, 'admitted')
    })
  }

  end(id: string, reason: EndReason): Promise<void> {
    const former = this.#entries.get(id)
    const since = former?.since
    return this.#decide(async () => {
      const entry = this.#entries.get(id) ?? this.#successorOf(former)
      if (!entry) return
      const { state } = entry
      const isTimeout = reason === 'timeout'
      if (isTimeout && (entry.since !== since || this.#isComing(entry))) return
      if (state === 'admitted') entry.state = 'pending'
      try {
        // When the other device leaves, UxPlay gets its new options.
        const isOther = this.#isOtherConnected(entry, isTimeout) || (state === 'pending' && (await this.#isPlaying()))
        await (isOther ? this.#setAllowed() : this.#restart())
      } catch (error) {
        entry.state = state
        throw error
      }
      this.#leave(entry)
    })
  }

  /** The session of a device that has just got another one, because it began to mirror again. */
  #successorOf(former: UxPlaySession | undefined): UxPlaySession | undefined {
    const present = this.#present
    if (!former || !present) return undefined
    // Devices behind the same router have the same address.
    const key = former.deviceId && present.deviceId ? 'deviceId' : 'address'
    return former[key] && former[key] === present[key] ? present : undefined
  }

  /** Whether the device of an admitted session may be connected, and on its way in. */
  #isComing({ state, deviceId }: UxPlaySession): boolean {
    if (state !== 'admitted' || this.#present || !this.#visit) return false
    const { caller, since, inode } = this.#visit
    // A connection without a file may be no device.
    const isIt = inode === undefined ? (caller?.deviceId ?? deviceId) === deviceId : caller?.deviceId === deviceId
    return isIt && this.#now() - since < PIN_MS
  }

  /**
   * Whether a device is connected, or mirrors, that does not belong to this session.
   * @param believes Whether to believe a device without a session that it is another one.
   */
  #isOtherConnected(entry: UxPlaySession, believes: boolean): boolean {
    const { caller, callers, isIn } = this.#visit ?? {}
    if (this.#present === entry) return false
    // The device may say that it is another one while its sound goes on.
    if (this.#present) return believes || this.#present.state === 'active' || !(isIn || callers?.has(entry.deviceId))
    return believes && caller !== undefined && caller.deviceId !== entry.deviceId
  }

  /** Whether a device plays sound. One that was refused does not: it may have left unnoticed. */
  #isPlaying(): Promise<boolean> {
    return this.#uxplay.isPlaying().catch(() => false)
  }

  /** Acts once it is known which devices are there. */
  #decide(act: () => Promise<void>): Promise<void> {
    return this.#queue.run(async () => {
      // A flood of connections must not make decisions impossible.
      await this.#look().catch(() => undefined)
      await act()
      this.#lookIn(NOTICE_MS)
    })
  }

  /** Restarts UxPlay, so that it reads its options. This puts out any connected device. @param isNeeded See `Unit`. @returns as `Unit`. */
  async #restart(isNeeded?: () => Promise<boolean>): Promise<boolean> {
    await this.#setAllowed()
    const isRestarted = await this.#uxplay.unit.restart(isNeeded)
    this.#stuckSince = undefined
    this.#hadDevice = false
    return isRestarted
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
    const startedAt = await this.#uxplay.startedAt()
    if (startedAt === undefined) return this.#lookAtStopped()
    this.#stoppedSince = undefined
    const began = this.#now()
    const connectedAt = await this.#uxplay.connectedAt()
    let sockets = await this.#uxplay.sockets()
    // A second look, because a restart may follow: a flood of connections can hide one.
    if (this.#isOver(sockets, connectedAt) || (connectedAt !== undefined && sockets.peers.length === 0))
      sockets = await this.#uxplay.sockets()
    const hasDevice = connectedAt !== undefined || sockets.peers.length > 0
    this.#hadDevice ||= hasDevice
    const now = this.#now()
    this.#track(sockets, connectedAt, began)
    // UxPlay keeps the file of a device that has left while another connection is open.
    const isFiled = connectedAt !== undefined && this.#connections.isFiledOpen
    this.#unfiledSince = hasDevice && !isFiled ? (this.#unfiledSince ?? now) : undefined
    const isDated = now - (this.#unfiledSince ?? Number.NEGATIVE_INFINITY) >= UNFILED_MS
    if (sockets.isListening && this.#listenedSince !== startedAt) {
      this.#listenedSince = startedAt
      // Having started for long is no reason to have little time from then on.
      this.#stuckSince = undefined
    }
    if (this.#present && this.#isOver(sockets, connectedAt)) {
      this.#leave(this.#present)
      // At once, even if the next device is there already: with the old options, it might get in without asking.
      if (await this.#uxplay.isOutdated().catch(() => true)) {
        await this.#restart()
        return BUSY_MS
      }
    }
    if (this.#visit && sockets.mirroring !== undefined) this.#visit.isIn = true
    if (this.#present || this.#visit?.isIn) this.#patienceMs = PIN_MS
    if (sockets.mirroring !== undefined) {
      this.#ask(undefined)
      if (this.#present?.state !== 'active') await this.#enterActive(sockets.mirroring)
      this.#video = sockets.video
      if (await this.#restartIfStuck(sockets.hasBacklog || !sockets.isListening, HUNG_MS)) return BUSY_MS
      // UxPlay goes on letting it in until the next restart, which the changed options will cause.
      await this.#setAllowed()
      return BUSY_MS
    }
    if (this.#present && !hasDevice) this.#leave(this.#present)
    if (hasDevice && isDated && this.#isInDoubt(sockets)) await this.#meet(sockets, connectedAt)
    this.#ask(this.#pinToShow())
    const patienceMs = this.#listenedSince === startedAt ? STUCK_MS : STARTING_MS
    await this.#repair(hasDevice, isDated, sockets, patienceMs)
    const isBusy = this.#stuckSince !== undefined && !this.#isStuckAgain
    if (isBusy || this.#present || this.#pin !== undefined) return BUSY_MS
    return hasDevice && began - this.#connections.changedAt < QUIET_MS ? MEETING_MS : IDLE_MS
  }

  async #lookAtStopped(): Promise<number> {
    if (this.#present) this.#leave(this.#present)
    this.#visit = undefined
    this.#stuckSince = undefined
    this.#unfiledSince = undefined
    this.#ask(undefined)
    const now = this.#now()
    this.#stoppedSince ??= now
    if (this.#admitted.length === 0) return STOPPED_MS
    if (now - this.#stoppedSince < STOPPED_GRACE_MS || !(await this.#uxplay.isStopped())) return BUSY_MS
    for (const entry of this.#admitted) this.#leave(entry)
    await this.#setAllowed()
    return STOPPED_MS
  }

  /** Remembers when connections were opened, and which device is connected. @param began When this look began. */
  #track({ connections: open }: Sockets, connectedAt: number | undefined, began: number): void {
    this.#connections.see(open, connectedAt, began, this.#now())
    let since: number | undefined
    let inode: number | undefined
    if (connectedAt !== undefined && this.#connections.isFiledOpen) since = connectedAt
    else {
      // Without its file, a device is known only by its connection, if there was no other one when it came.
      inode = open.find(inode => open.length === 1 || inode === this.#visit?.inode)
      const opened = inode && this.#connections.openedAfter(inode)
      if (opened !== undefined) since = Math.max(opened, this.#connections.filedLeftAt)
    }
    const former = this.#visit
    if (since === undefined) this.#visit = undefined
    else if (former?.since !== since || former.inode !== inode) {
      // UxPlay makes the file anew when its device plays a video of its own accord.
      const kept = former?.inodes.filter(inode => open.includes(inode)) ?? []
      // If UxPlay keeps the file, its device may be there: the connections that have closed may have been those of another one.
      const isStale = connectedAt !== undefined && inode !== undefined
      const isIn = former?.isIn === true && (isStale || kept.length > 0)
      const added = inode === undefined ? this.#connections.filed.inodes : isStale ? [] : [inode]
      const inodes = [...kept, ...added]
      const unknown = { caller: undefined, callers: new Set<string>(), hasSpoken: false, pin: undefined, pinAt: 0 }
      this.#visit = { ...unknown, since, inode, inodes, waitedSince: began, isIn }
    }
  }

  /** Whether the device that mirrored or asked has left. Another one may have taken its place. */
  #isOver({ video, connections }: Sockets, connectedAt: number | undefined): boolean {
    if (!this.#present) return false
    const { state, connectedAt: own, enteredAt } = this.#present
    if (state === 'active') return video !== this.#video
    // The file of another device.
    if (own === undefined ? connectedAt !== undefined && connectedAt > enteredAt : own !== connectedAt) return true
    return isGone(this.#own, connections)
  }

  /** Whether the connected device may be another one than `#present`. */
  #isInDoubt({ peers }: Sockets): boolean {
    if (!this.#present || peers.length > 1) return true
    return this.#now() - this.#present.enteredAt < DOUBT_MS
  }

  /** Finds the PIN that a connected device asks for, and registers the device as pending if UxPlay refused it. */
  async #meet({ peers, connections }: Sockets, connectedAt: number | undefined): Promise<void> {
    const now = this.#now()
    this.#logLooks = Math.min(MAX_LOG_LOOKS, this.#logLooks + ((now - this.#logLookedAt) / 1000) * LOG_LOOKS_PER_S)
    this.#logLookedAt = now
    if (this.#logLooks < 1) return
    this.#logLooks--
    const lines = await this.#log()
    if (this.#visit) this.#listen(this.#visit, lines)
    const refused = refusedCaller(lines.map(({ text }) => text))
    const line = refused && lines[refused.line]
    // Messages from before it connected are about another device.
    if (!refused || !line || line.at < (connectedAt ?? 0)) return
    // A busy journald dates messages too late.
    if (refused.newer > 0 && (await this.#countSince(connections)) <= refused.newer) {
      this.#lastRefusal = undefined
      if (this.#present?.state === 'pending' && this.#present.deviceId === refused.deviceId) this.#leave(this.#present)
      return
    }
    // A device that was turned away is listed once there is room.
    if (line.cursor === this.#lastRefusal && (!this.#wasTurnedAway || this.#host?.isFull)) return
    // Another device may have connected since this look began: the next look has its date.
    if ((await this.#uxplay.connectedAt()) !== connectedAt) return
    this.#lastRefusal = line.cursor
    if (this.#present?.deviceId === refused.deviceId) return
    // The previous device left unnoticed, because another connection was open.
    if (this.#present) this.#leave(this.#present)
    const address = new Set(peers).size === 1 ? (peers[0] ?? '') : ''
    const { isFiledOpen, filed } = this.#connections
    const isFiled = connectedAt !== undefined && isFiledOpen
    this.#present = this.#enter(refused, address, 'pending', isFiled ? connectedAt : undefined)
    this.#wasTurnedAway = this.#present === undefined
    // Any that came with it may be its own; a device does not take so long to ask.
    const since = Math.max(this.#visit?.since ?? 0, line.at - PIN_MS)
    this.#own = isFiled ? filed.inodes : this.#connections.before(line.at, since)
  }

  /** Learns from the log about the device that is connected. What is known stays so while other devices fill the log. */
  #listen(visit: Visit, lines: readonly JournalEntry[]): void {
    const own = linesSince(lines, visit.since)
    const caller = lastCaller(own) ?? visit.caller
    visit.caller = caller
    if (caller && this.#admitted.some(({ deviceId }) => deviceId === caller.deviceId))
      visit.callers.add(caller.deviceId)
    visit.isIn ||= hasComeIn(own)
    visit.hasSpoken ||= hasSpoken(own)
    // Without an earlier line, some of the later ones may be missing.
    const pin = own.length < lines.length ? pinIn(own) : undefined
    const asked = isPinAnswered(own) ? undefined : (pin ?? visit.pin)
    if (asked === visit.pin) return
    visit.pin = asked
    visit.pinAt = this.#now()
  }

  /** The PIN that the connected device must still enter. */
  #pinToShow(): string | undefined {
    const { pin, pinAt = 0 } = this.#visit ?? {}
    return this.#now() - pinAt < PIN_MS ? pin : undefined
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
    const allowed = await this.#uxplay.allowed().catch(() => undefined)
    const { since = 0 } = this.#visit ?? {}
    const callerIn = (lines: readonly JournalEntry[]) => lastCaller(linesSince(lines, since), allowed)
    // Other devices may have filled the log since this one asked.
    const caller = callerIn(await this.#log()) ?? callerIn(await this.#log(true))
    // Without a line about it, it is known only if no other device may come.
    const deviceId = caller?.deviceId ?? (allowed?.size === 1 ? [...allowed][0] : undefined)
    const entry = this.#admitted.find(admitted => admitted.deviceId === deviceId)
    if (this.#present) this.#leave(this.#present)
    this.#present = entry ?? this.#enter(caller ?? UNKNOWN, address, 'active')
    if (!entry) return
    entry.state = 'active'
    entry.since = this.#now()
    this.#host?.move(entry.id, 'active', { ...caller, address })
  }

  /**
   * Restarts UxPlay if it is stuck, or if its options were changed while a device was connected that has left.
   * @param patienceMs Milliseconds until it counts as stuck.
   */
  async #repair(hasDevice: boolean, isDated: boolean, sockets: Sockets, patienceMs: number): Promise<void> {
    const { isBehind, isListening, isVideoOpen } = sockets
    // If UxPlay forgot to close a port, the next device would send its picture to nobody.
    const isStuck = isBehind || !isListening || (isVideoOpen && !hasDevice && this.#hadDevice)
    if (await this.#restartIfStuck(isStuck, patienceMs)) return
    if (await this.#isOccupied()) {
      if (!(await this.#restart())) return
      this.#patienceMs = AGAIN_MS
      this.#host?.warn('UxPlay was restarted, because a device had been connected for 2 minutes without coming in')
      return
    }
    // It may be about to make a file.
    if (!isDated) return
    // A connection that says nothing is no device. A device that UxPlay makes no file for is known once it was refused.
    const isFiled = this.#visit && this.#visit.inode === undefined
    // It may have left, and a stranger may have stayed.
    const isKnown = isFiled && (!this.#connections.mayFiledHaveLeft || this.#pin || (await this.#uxplay.isPlaying()))
    const holder = this.#present || isKnown ? this.#visit?.since : undefined
    // Decisions must be possible even if the options cannot be read.
    const isStale = () => this.#uxplay.isOutdated().catch(() => false)
    const isOutdated = await isStale()
    if (!isOutdated) this.#heldFor = holder
    const isDue = isOutdated && (holder === undefined || holder !== this.#heldFor)
    if (isDue && !this.#restartDidNotHelp) await this.#restart(isStale)
    this.#restartDidNotHelp = isDue
  }

  /**
   * Whether a device has not come in for so long that it may be gone without a word. Until a device is in, UxPlay waits for it
   * without limit, and turns all others away.
   */
  async #isOccupied(): Promise<boolean> {
    const visit = this.#visit
    if (!visit || this.#present || visit.isIn || !visit.hasSpoken) return false
    const now = this.#now()
    // The newest connection may be that of a device without a file.
    const since = Math.max(visit.waitedSince, visit.pinAt, this.#connections.newestAt)
    if (now - since < this.#patienceMs) return false
    // As long again before the next look, whatever comes of this one.
    visit.waitedSince = now
    // A device that plays sound is in, even if others have filled the log since it came.
    visit.isIn = (await this.#uxplay.isPlaying()) || !(await this.#isKnownToWait(visit))
    return !visit.isIn
  }

  /** Whether the log has all about a device, and not that it has come in. */
  async #isKnownToWait({ since, inode }: Visit): Promise<boolean> {
    const lines = await this.#log(true)
    // The clock may have been set since a device came that was there before this service: it may be any of this run.
    const from = inode === undefined && this.#connections.filed.areOld ? 0 : since
    const isComplete = lines.some(({ at, text }) => at < from || text === SERVER_START)
    return isComplete && !hasComeIn(linesSince(lines, from))
  }

  /** @returns whether UxPlay was restarted, because it has been stuck for `ms` milliseconds. */
  async #restartIfStuck(isStuck: boolean, ms: number): Promise<boolean> {
    const now = this.#now()
    this.#isStuckAgain &&= isStuck
    this.#stuckSince = isStuck ? (this.#stuckSince ?? now) : undefined
    if (this.#stuckSince === undefined || now - this.#stuckSince < ms) return false
    // As long again before the next restart, even if this one fails.
    this.#stuckSince = now
    this.#isStuckAgain = true
    if (await this.#restart()) this.#host?.warn('UxPlay was restarted, because it no longer took connections')
    return true
  }

  #enter(
    { name, model, deviceId }: Caller,
    address: string,
    state: SessionState,
    connectedAt?: number,
  ): UxPlaySession | undefined {
    const id = this.#host?.enter(this, { protocol: 'airplay', name, model, deviceId, address }, state)
    if (id === undefined) return undefined
    const now = this.#now()
    const entry = { id, deviceId, address, enteredAt: now, connectedAt, state, since: now }
    this.#entries.set(id, entry)
    return entry
  }

  #leave(entry: UxPlaySession): void {
    this.#entries.delete(entry.id)
    if (this.#present === entry) this.#present = undefined
    this.#host?.leave(entry.id)
  }

  /** Without a journal, devices have no names, and none can ask. */
  #log(isLong = false): Promise<readonly JournalEntry[]> {
    return this.#uxplay.log(isLong).catch(() => [])
  }
}

/** The texts of the lines that were printed at this time or later. */
function linesSince(lines: readonly JournalEntry[], since: number): readonly string[] {
  return lines.filter(({ at }) => at >= since).map(({ text }) => text)
}
