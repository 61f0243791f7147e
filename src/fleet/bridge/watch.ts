import { CommandError } from '../../cli/failure.ts'
import type { JsonObject } from '../../json.ts'
import { Complaint, type Log } from '../../log.ts'
import type { DeviceClient } from '../client.ts'
import { Follower, isAbsent, MAX_EVENT } from './follower.ts'
import { type DeviceState, NOTHING_KNOWN, type Shown, sessionsIn, statusIn, updateIn } from './state.ts'

export interface WatchOptions {
  readonly name: string
  /** A client for the device, with a credential that it should accept. @throws {CommandError} if there is none at the moment. */
  readonly client: () => DeviceClient
  /** Called if the device was not reached, or refused the credential. @returns what to do about it, as the end of a sentence. */
  readonly unreached: (error: unknown) => string
  readonly changed: (state: DeviceState) => void
  /** Called when the device has come online, and has to be looked at. */
  readonly arrived: () => void
  readonly log: Log
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  readonly signal: AbortSignal
}

/** Follows the state of one device. */
export class Watch {
  readonly #options: WatchOptions
  readonly #complaint: Complaint
  /** The paths of the streams that are open. */
  readonly #open = new Set<string>()
  #state: DeviceState = NOTHING_KNOWN

  constructor(options: WatchOptions) {
    this.#options = options
    this.#complaint = new Complaint(options.log)
  }

  get state(): DeviceState {
    return this.#state
  }

  /** Follows it until the signal is aborted. */
  async run(): Promise<void> {
    await Promise.all([
      this.#follow(
        '/events',
        'system.changed',
        (data, isWhole) => {
          const { settings } = this.#state
          const merged = isWhole || typeof settings === 'string' ? data : { ...settings, ...data }
          if (JSON.stringify(merged).length > MAX_EVENT) throw new CommandError('its configuration has no end')
          this.#set({ settings: merged })
        },
        () => this.#set({ settings: 'absent' }),
        {},
      ),
      this.#follow(
        '/sessions/events',
        'sessions.changed',
        ({ sessions }) => this.#set({ sessions: sessionsIn(sessions) }),
        () => this.#set({ sessions: 'absent' }),
        // The names of people who mirror are not shown once they may no longer be right.
        { sessions: 'unknown' },
      ),
    ])
  }

  /** Reads the resources that have no events. */
  async look(): Promise<void> {
    if (!this.#state.isOnline) return
    const status = await this.#read('/status', statusIn)
    const update = await this.#read('/update', updateIn)
    this.#set({ ...(status && { status }), ...(update && { update }) })
  }

  /** @returns undefined if it is not known. */
  async #read(path: string, shown: (body: JsonObject) => JsonObject): Promise<Shown<JsonObject> | undefined> {
    try {
      const { body } = await this.#options.client().send('GET', path)
      return shown(body)
    } catch (error) {
      return isAbsent(error) ? 'absent' : undefined
    }
  }

  #follow(
    path: string,
    event: string,
    receive: (data: JsonObject, isWhole: boolean) => void,
    forget: () => void,
    lapsed: Partial<DeviceState>,
  ): Promise<void> {
    const { name, client, random, signal, log, arrived, unreached } = this.#options
    const refusals = new Complaint(log)
    const follower = new Follower({
      path,
      event,
      client,
      receive,
      opened: () => {
        const { isOnline } = this.#state
        this.#open.add(path)
        this.#complaint.end()
        refusals.end()
        this.#set({ isOnline: true })
        if (isOnline) return
        log('info', `${name} is online`)
        arrived()
      },
      lost: (reason, error) => {
        this.#open.delete(path)
        const advice = unreached(error)
        const isOnline = this.#open.size > 0
        this.#set({ isOnline, ...lapsed })
        if (!isOnline) this.#complaint.say(`${name} is offline: ${reason}${advice}`)
      },
      absent: error => {
        this.#open.delete(path)
        refusals.say(`${name}: ${path} is not shown: ${error.message}`)
        forget()
      },
      random,
      signal,
    })
    return follower.run()
  }

  #set(change: Partial<DeviceState>): void {
    this.#state = { ...this.#state, ...change }
    this.#options.changed(this.#state)
  }
}
