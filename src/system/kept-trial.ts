import type { Files } from '../../hal/files/files.ts'
import { UUID } from '../http/uuid.ts'

const FILE = '/kept-trial'

/** The trial that was kept last, also by an earlier run: a client whose answer was lost asks again. */
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

  /** @param isUndone Whether a trial was undone at this start: it may be the one in the file. */
  async start(isUndone: boolean): Promise<void> {
    await this.#state.recover(FILE)
    if (isUndone) return this.forget()
    const text = (await this.#state.readText(FILE))?.trim()
    if (text !== undefined && UUID.test(text)) this.#id = text
  }

  /** Before it is certain, or a crash in between would leave a change that was kept without the record of it. */
  async keep(id: string): Promise<void> {
    this.#id = id
    await this.#state.writeAtomic(FILE, `${id}\n`)
  }

  /** Durable when it returns. */
  async forget(): Promise<void> {
    this.#id = undefined
    await this.#state.remove(FILE)
  }
}
