import type { Files } from '../../hal/files/files.ts'
import { UUID } from '../http/uuid.ts'

const FILE = '/kept-trial'

/** The ID of the last trial that was kept, even by an earlier run, for a client that lost the response and asks again. */
export class KeptTrial {
  readonly #state: Files
  #id: string | undefined

  /** @param state The files of the state directory. */
  constructor(state: Files) {
    this.#state = state
  }

  get id(): string | undefined {
    return this.#id
  }

  /** @param isUndone Whether this start undid a trial, which may be the one in the file. */
  async start(isUndone: boolean): Promise<void> {
    await this.#state.recover(FILE)
    if (isUndone) return this.forget()
    const text = (await this.#state.readText(FILE))?.trim()
    if (text !== undefined && UUID.test(text)) this.#id = text
  }

  /** Records a trial before it is kept for certain: a crash in between must not leave a kept change without its record. */
  async keep(id: string): Promise<void> {
    this.#id = id
    await this.#state.writeAtomic(FILE, `${id}\n`)
  }

  /** Removes the record durably. */
  async forget(): Promise<void> {
    this.#id = undefined
    await this.#state.remove(FILE)
  }
}
