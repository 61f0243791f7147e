import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import type { SessionState } from '../../hal/engine.ts'
import type { Session } from '../../src/sessions/session.ts'
import { type Rig, startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { AirPlayClient } from './airplay/client.ts'
import type { ClientOptions } from './airplay/options.ts'

/** UxPlay listens for devices. */
const CONTROL = 7001
const READY_MS = 15_000

/** A machine with UxPlay, and a moderator. */
export class Room {
  readonly rig: Rig

  constructor(rig: Rig) {
    this.rig = rig
  }

  device(options: Partial<ClientOptions> = {}): AirPlayClient {
    return new AirPlayClient({ host: this.rig.address, name: "Ann's iPhone", ...options })
  }

  /** A connection that says nothing. While it is open, UxPlay does not notice that a device has left. */
  idle(): Socket {
    return connect({ host: this.rig.address, port: CONTROL }).on('error', () => undefined)
  }

  /** A device that was let in, and mirrors. */
  async admitted(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    const asks = this.device(options)
    await asks.advance()
    await this.admit(await this.untilOnly('pending'))
    await this.untilReady()
    const device = await this.mirror(options)
    await this.untilOnly('active')
    return device
  }

  /** Waits until UxPlay listens. */
  async untilReady(): Promise<void> {
    await eventually(() => this.rig.isListening(CONTROL), READY_MS)
  }

  /** A device that mirrors. Where UxPlay crashes while it connects, which happens now and then, it tries again. */
  async mirror(options: Partial<ClientOptions> = {}): Promise<AirPlayClient> {
    for (let tries = 0; ; tries++) {
      const device = this.device(options)
      const outcome = await device.advance().catch((error: Error) => error.message)
      if (outcome === 'mirroring') return device
      if (tries === 2) throw new Error(`it does not mirror: ${outcome}`)
      await this.untilReady()
    }
  }

  async sessions(): Promise<readonly Session[]> {
    return ((await (await this.rig.fetch('/sessions')).json()) as { sessions: Session[] }).sessions
  }

  /** Waits until there is one session, in this state. */
  untilOnly(state: SessionState): Promise<Session> {
    return eventually(async () => {
      const [session, ...others] = await this.sessions()
      return others.length === 0 && session?.state === state && session
    })
  }

  /** Waits until there is none. */
  async untilEmpty(): Promise<void> {
    await eventually(async () => (await this.sessions()).length === 0)
  }

  admit({ id }: Session): Promise<Response> {
    return this.rig.fetch(`/sessions/${id}/admit`, { method: 'POST' })
  }

  end({ id }: Session): Promise<Response> {
    return this.rig.fetch(`/sessions/${id}`, { method: 'DELETE' })
  }

  /** The `allow` lines that UxPlay was started with. */
  async allowed(): Promise<string> {
    return this.rig.shell('grep "^allow" /run/uxplay/options || true')
  }
}

export async function startRoom(t: Test, rc = ''): Promise<Room> {
  const rig = await startRig(t)
  if (rc !== '') await rig.replaceFile('/etc/uxplayrc', `${await rig.readFile('/etc/uxplayrc')}${rc}`)
  const room = new Room(rig)
  const answer = await rig.patch({ moderation: { approval: 'moderator' } })
  t.equal(answer.status, 200)
  await room.untilReady()
  return room
}
