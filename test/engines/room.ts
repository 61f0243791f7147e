import { equal } from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import type { SessionState } from '../../hal/engine.ts'
import type { Session } from '../../src/sessions/session.ts'
import { type Rig, startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { AirPlayClient } from './airplay/client.ts'
import type { ClientOptions } from './airplay/options.ts'
import { Crashes } from './crashes.ts'

/** UxPlay listens for devices. */
const CONTROL = 7001
const READY_MS = 60_000
/**
 * Milliseconds until a session that began or ended is listed or not: half of the time between two looks at an idle UxPlay. Where
 * UxPlay is restarted, that comes on top.
 */
export const LISTED_MS = 10_000
/** Decisions that may take longer than the 5 s that the API gives them, before at most half of all may. */
const MAX_LATE = 3
/** Until systemd has logged that UxPlay has crashed. */
const CRASH_LOGGED_MS = 20_000

/** A machine with UxPlay, and a moderator. */
export class Room {
  readonly rig: Rig
  readonly log: Pick<Test, 'comment'>
  readonly #crashes: Crashes
  #decisions = 0
  #late = 0

  constructor(rig: Rig, log: Pick<Test, 'comment'>) {
    this.rig = rig
    this.log = log
    this.#crashes = new Crashes(command => rig.shell(command))
  }

  device(options: Partial<ClientOptions> = {}): AirPlayClient {
    return new AirPlayClient({ host: this.rig.address, name: "Ann's iPhone", ...options })
  }

  /** A connection that says nothing. While it is open, UxPlay does not notice that a device has left. */
  idle(): Socket {
    return connect({ host: this.rig.address, port: CONTROL }).on('error', () => undefined)
  }

  /** A device that was let in, and mirrors. */
  admitted(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    return this.unlessCrashed(() => this.letIn(options))
  }

  /** The same, as a part of a test that `unlessCrashed` runs. */
  async letIn(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    equal(await this.device(options).advance(), 'refused')
    equal((await this.admit(await this.untilOnly('pending'))).status, 200)
    await this.untilReady()
    return this.comesIn(options)
  }

  /** A device comes in no more without asking, and is denied. */
  async mustAsk(options: Partial<ClientOptions> = {}): Promise<void> {
    const seen = await this.unlessCrashed(async () => {
      const seen = await this.device(options).advance()
      // No crash lets a device in.
      if (seen === 'mirroring') return seen
      equal(seen, 'refused')
      await this.end(await this.untilOnly('pending'))
      await this.untilReady()
      return seen
    })
    equal(seen, 'refused')
  }

  /** A device that mirrors and is listed at the first attempt, as a part of a test that `unlessCrashed` runs. */
  async comesIn(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    const device = this.device(options)
    equal(await device.advance(), 'mirroring')
    await this.untilOnly('active', LISTED_MS)
    return device
  }

  /**
   * Runs a part of a test, which throws if it fails. If UxPlay has crashed in it, which is printed and counted, the part runs
   * again, with nobody in the room. A crash from before, such as one after a device has left, excuses nothing.
   * @throws if the part failed for another reason, or if there are too many crashes.
   */
  async unlessCrashed<T>(part: () => Promise<T>): Promise<T> {
    for (;;) {
      const before = await this.#crashes.news()
      if (before !== undefined) this.log.comment(before)
      await this.untilReady()
      this.#crashes.countAttempt()
      try {
        return await part()
      } catch (error) {
        const crash = await this.crash().catch(none => {
          throw new Error(`${messageOf(error)} (${messageOf(none)})`, { cause: error })
        })
        this.log.comment(`${messageOf(error)}: ${crash}`)
      }
      await this.clear()
    }
  }

  /** Puts out every device. */
  async clear(): Promise<void> {
    for (const session of await this.sessions()) await this.end(session)
    await this.rig.run(['systemctl', 'restart', 'uxplay'])
    await this.untilEmpty()
    await this.untilReady()
  }

  /** Waits until UxPlay listens. */
  async untilReady(): Promise<void> {
    await eventually(() => this.rig.isListening(CONTROL), READY_MS)
  }

  /** Waits until UxPlay has started with an option, or without it, and listens. */
  async untilOption(option: string, isThere = true): Promise<void> {
    const count = isThere ? '1\n' : '0\n'
    await eventually(async () => (await this.rig.shell(`grep -cx '${option}' /run/uxplay/options || true`)) === count)
    await this.untilReady()
  }

  /** A device that need not ask, mirrors, and is listed. */
  mirror(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    return this.unlessCrashed(() => this.comesIn(options))
  }

  /**
   * A device that gets as far as it is to, and is listed if it mirrors; undefined if UxPlay has crashed instead, after which
   * it is ready again. Crashes are printed, and counted.
   * @throws if it gets elsewhere, if UxPlay is not ready in time, or if there are too many crashes.
   */
  async attempt(outcome: string, options: Partial<ClientOptions> = {}): Promise<AirPlayClient | undefined> {
    this.#crashes.countAttempt()
    const device = this.device(options)
    const seen = await device.advance().catch((error: Error) => error.message)
    const isListed = seen !== 'mirroring' || (await this.#hasActive())
    if (seen === outcome && isListed) return device
    if (seen === 'mirroring' && outcome === 'refused') throw new Error('a device came in without asking')
    const crash = await this.crash().catch(async (error: Error) => {
      this.log.comment(
        await this.rig.shell('journalctl --unit uxplay --unit receiverd --lines 40 --output short-precise'),
      )
      const what = `${seen}${isListed ? '' : ', and not listed'}`
      throw new Error(`${options.name ?? 'a device'} was to be ${outcome}, but: ${what}`, { cause: error })
    })
    this.log.comment(crash)
    await device.leave('close')
    await this.untilReady()
    return undefined
  }

  /** @returns the log of a crash of UxPlay that nobody has asked about. @throws if there is none, or if there are too many. */
  crash(): Promise<string> {
    // systemd may be about to log it.
    return eventually(() => this.#crashes.news(), CRASH_LOGGED_MS)
  }

  /** Does not count the crashes until now, because the test has provoked them. */
  async excuse(): Promise<void> {
    await this.#crashes.excuse()
  }

  /** Whether a session is active soon. */
  #hasActive(): Promise<boolean> {
    const look = async () => (await this.sessions().catch(() => [])).some(({ state }) => state === 'active')
    return eventually(look, LISTED_MS).catch(() => false)
  }

  async sessions(): Promise<readonly Session[]> {
    return ((await (await this.rig.fetch('/sessions')).json()) as { sessions: Session[] }).sessions
  }

  /** Waits until there is one session, in this state. */
  untilOnly(state: SessionState, ms?: number): Promise<Session> {
    return eventually(async () => {
      const [session, ...others] = await this.sessions()
      return others.length === 0 && session?.state === state && session
    }, ms)
  }

  /** Waits until the receiver has closed a device's control connection. @returns how. */
  untilEnded(device: AirPlayClient): Promise<string> {
    let how: string | undefined
    device.ended().then(reason => (how = reason))
    return eventually(() => how)
  }

  /** Waits until there is none. */
  async untilEmpty(): Promise<void> {
    await eventually(async () => (await this.sessions()).length === 0)
  }

  /** Makes a decision. @throws if too many are answered late. */
  async decide(method: string, path: string): Promise<Response> {
    const answer = await this.rig.fetch(path, { method })
    this.#decisions++
    if (answer.status === 504) this.#late++
    const late = `${this.#late} of ${this.#decisions} decisions took longer than 5 s`
    if (this.#late > Math.max(MAX_LATE, this.#decisions / 2)) throw new Error(late)
    if (answer.status === 504) this.log.comment(late)
    return answer
  }

  /** A decision that takes more than 5 s is answered by 504, and carried out: a second one waits for the first. */
  async admit(session: Session): Promise<Response> {
    const answer = await this.decide('POST', `/sessions/${session.id}/admit`)
    return answer.status === 504 ? this.admit(session) : answer
  }

  /** In the same way, but then the session is gone. */
  async end({ id }: Session): Promise<Response> {
    const answer = await this.decide('DELETE', `/sessions/${id}`)
    if (answer.status !== 504) return answer
    await eventually(async () => !(await this.sessions()).some(session => session.id === id))
    return new Response(null, { status: 204 })
  }

  /** The `allow` lines that UxPlay was started with. */
  async allowed(): Promise<string> {
    return this.rig.shell('grep "^allow" /run/uxplay/options || true')
  }
}

export async function startRoom(t: Test, rc = ''): Promise<Room> {
  const rig = await startRig(t)
  if (rc !== '') await rig.replaceFile('/etc/uxplayrc', `${await rig.readFile('/etc/uxplayrc')}${rc}`)
  const room = new Room(rig, t)
  t.teardown(async () => {
    if (t.passing()) return
    t.comment(await rig.shell('journalctl --unit uxplay --unit receiverd --lines 60 --output short-precise'))
  })
  const answer = await rig.patch({ moderation: { approval: 'moderator' } })
  t.equal(answer.status, 200)
  await room.untilReady()
  return room
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
