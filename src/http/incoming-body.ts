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
 * A streamed body, read no faster than the handler consumes it: the processing of each chunk holds up the client. It ends
 * early if the client stalls or disconnects, or if its credential is refused in the meantime.
 */
export class IncomingBody {
  /** The size that the client announced, in bytes. `chunks` yields exactly as many. */
  readonly length: number
  readonly #message: IncomingMessage
  readonly #response: ServerResponse
  readonly #rules: StreamRules
  readonly #recheck: () => void
  #refusal: Problem | undefined
  #wake: () => void = () => undefined

  /** @param recheck Throws once the credential is no longer valid. */
  constructor(message: IncomingMessage, response: ServerResponse, rules: StreamRules, recheck: () => void) {
    this.length = Number(message.headers['content-length'])
    this.#message = message
    this.#response = response
    this.#rules = rules
    this.#recheck = recheck
  }

  /** Stops reading: the next chunk is replaced by this problem. */
  end(problem: Problem): void {
    this.#refusal ??= problem
    this.#wake()
  }

  /**
   * Yields the chunks, once; each is only valid until the next one is requested. Sends 100 Continue first if the client
   * waits for it.
   * @throws {Problem} 408, 400 if the body is cut short, 401, or the problem passed to `end`.
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

  /** Waits for the next chunk; undefined at the end. Only the wait for the client counts as stalling. */
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

  /** Resolves when there may be something to read, or after `ms` milliseconds. */
  async #woken(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      this.#wake = resolve
      timer = setTimeout(resolve, Math.ceil(ms))
    })
    clearTimeout(timer)
  }
}
