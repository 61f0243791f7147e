/** A device that asks to mirror, at its engine: it does as the engine was told. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestEngine } from '../../support/sessions.ts'

/** `away`: the service has gone, and will hear of it again. */
type State = 'pending' | 'active' | 'away' | 'gone'

type Ask = (name: string, more?: object) => Promise<TestEngine>

export class Guest {
  readonly name: string
  id = ''
  /** How long it takes to stop mirroring, or to go away, when it is told to. */
  readonly #slownessMs: number
  #since: string | undefined
  #state: State = 'away'
  #wasActive = false
  #engine: TestEngine | undefined

  constructor(name: string, slownessMs: number) {
    this.name = name
    this.#slownessMs = slownessMs
  }

  get state(): State {
    return this.#state
  }

  /** Asks, or goes on where it was before the service went away. */
  async come(ask: Ask): Promise<void> {
    const going = this.#wasActive && { state: 'active', id: this.id, since: this.#since }
    this.#engine = await ask(this.name, { deviceId: this.name, ...going })
    await this.#hear()
    void this.#follow()
  }

  leave(): void {
    this.#state = 'gone'
    this.#engine?.close()
  }

  async #follow(): Promise<void> {
    while (await this.#hear());
    if (this.#state !== 'gone') this.#state = 'away'
  }

  /** @returns whether there is more to come. */
  async #hear(): Promise<boolean> {
    const line = await this.#engine?.line()
    if (!line || this.#state === 'gone') return false
    if (line.id !== undefined) this.id = line.id
    if (line.reason === 'shutdown') return false
    if (line.state === 'pending' || line.state === 'active') {
      this.#state = line.state
      this.#wasActive = line.state === 'active'
      this.#since = line.since
      return true
    }
    await sleep(this.#slownessMs)
    this.leave()
    return false
  }
}
