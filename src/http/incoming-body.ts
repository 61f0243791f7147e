import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem } from '../problem.ts'
import { expectsContinue } from './body.ts'
import { freeChunk } from './node-internals.ts'
import type { StreamRules } from './route.ts'

const MS_PER_HOUR = 3_600_000

function durationOf(ms: number): string {
  return ms < MS_PER_HOUR ? `${ms / 1000} s` : `${ms / MS_PER_HOUR} h`
}

/**
 * A body that is taken as it arrives, and no faster than it is taken: what the handler does with a chunk holds up the
 * client. It ends early for a client that stalls or goes away, and for a credential that is refused meanwhile.
 */
export class IncomingBody {
  /** Bytes, as the client has announced them. Neither fewer nor more come out. */
  readonly length: number
  readonly #message: IncomingMessage
  readonly #response: ServerResponse
  readonly #rules: StreamRules
  readonly #recheck: () => void
  #refusal: Problem | undefined
  #wake: () => void = () => undefined

  /** @param recheck Throws once the credential does not hold any more. */
  constructor(message: IncomingMessage, response: ServerResponse, rules: StreamRules, recheck: () => void) {
    this.length = Number(message.headers['content-length'])
    this.#message = message
    this.#response = response
    this.#rules = rules
    this.#recheck = recheck
  }

  /** Takes no more of it: the chunk that is awaited is this problem. */
  end(problem: Problem): void {
    this.#refusal ??= problem
    this.#wake()
  }

  /**
   * The chunks, once; each is gone when the next one is asked for. A client that waits for 100 Continue is asked for the body now.
   * @throws {Problem} 408, 400 if the body is cut short, 401, or as `end` says.
   */
  async *chunks(): AsyncGenerator<Buffer, void, undefined> {
    if (expectsContinue(this.#message)) this.#response.writeContinue()
    const wake = () => this.#wake()
    const deadline = performance.now() + this.#rules.totalMs
    this.#message.on('readable', wake).on('end', wake).on('close', wake).on('error', wake)
    for (let chunk = await this.#next(deadline); chunk; chunk = await this.#next(deadline)) {
      this.#recheck()
      yield chunk
      freeChunk(chunk)
    }
    this.#recheck()
  }

  /** Waits for the client, and for nothing else; undefined at the end. */
  async #next(deadline: number): Promise<Buffer | undefined> {
    const { stallMs, totalMs } = this.#rules
    const stalled = performance.now() + stallMs
    for (;;) {
      if (this.#refusal) throw this.#refusal
      const chunk: Buffer | null = this.#message.read()
      if (chunk) return chunk
      if (this.#message.readableEnded && this.#message.complete) return undefined
      if (this.#message.destroyed || this.#message.readableEnded)
        throw new Problem('bad-request', 'The body was cut short.')
      const now = performance.now()
      if (now >= deadline) throw new Problem('request-timeout', `The body must arrive within ${durationOf(totalMs)}.`)
      if (now >= stalled)
        throw new Problem('request-timeout', `No byte of the body has arrived for ${stallMs / 1000} s.`)
      await this.#woken(Math.min(deadline, stalled) - now)
    }
  }

  /** Resolves when there may be something to read, and after so many milliseconds. */
  async #woken(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      this.#wake = resolve
      timer = setTimeout(resolve, Math.ceil(ms))
    })
    clearTimeout(timer)
  }
}
