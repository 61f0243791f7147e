import { reasonOf } from '../../hal/errors.ts'
import { masked } from '../../hal/format/bundle-url.ts'
import { type BundleAnswer, DownloadError, type Downloads } from '../../hal/os/downloads.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import type { BundleStore, Incoming } from './bundle-store.ts'
import { timer, type Wait } from './wait.ts'

/** Milliseconds until a download that broke off goes on; doubled each time in a row. */
const FIRST_RETRY_MS = 5_000
const LAST_RETRY_MS = 5 * 60_000
/** Tries in a row that bring nothing. */
const MAX_RETRIES = 8
/** Milliseconds for a download in all. */
const TOTAL_MS = 6 * 60 * 60_000

export interface FetcherOptions {
  readonly downloads: Pick<Downloads, 'bundle'>
  readonly store: Pick<BundleStore, 'receive'>
  /** Tells of a download that could not begin. */
  readonly failed: (problem: Problem) => void
  readonly maxBytes: number
  readonly log: Log
  readonly wait?: Wait
}

/** Downloads bundles into the store, one at a time. */
export class Fetcher {
  readonly #options: FetcherOptions
  #current: Promise<boolean> | undefined
  #incoming: Incomings | undefined

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  get isBusy(): boolean {
    return this.#current !== undefined
  }

  /** Begins a download. It never rejects: what is shown of the update tells how it ends. @throws {Problem} 409 while there is one. */
  begin(url: string): void {
    void this.fetch(url)
  }

  /** The same. @returns once it has ended, whether the store has the bundle. */
  fetch(url: string): Promise<boolean> {
    if (this.#current) throw new Problem('conflict', 'A bundle is being downloaded.')
    const current = this.#fetch(url)
      .then(
        () => true,
        error => {
          this.#options.log('warning', `update: ${masked(url)} was not downloaded: ${describe(error)}`)
          return false
        },
      )
      .finally(() => {
        this.#current = undefined
      })
    this.#current = current
    return current
  }

  /** Ends a download. */
  stop(): void {
    this.#incoming?.end(new Problem('download-failed', 'The service has stopped.'))
  }

  async #fetch(url: string): Promise<void> {
    const { downloads, store, failed, maxBytes } = this.#options
    let answer: BundleAnswer
    try {
      answer = await downloads.bundle({ url, max: maxBytes })
    } catch (error) {
      const problem = problemOf(error)
      failed(problem)
      throw problem
    }
    const incoming = new Incomings(url, answer, this.#options)
    this.#incoming = incoming
    try {
      await store.receive({ source: 'url', bytes: answer.bytes, offset: 0, incoming })
    } finally {
      incoming.close()
      this.#incoming = undefined
    }
  }
}

/** The bytes of a download, which goes on by itself where it breaks off. */
class Incomings implements Incoming {
  readonly #url: string
  readonly #options: FetcherOptions
  #answer: BundleAnswer
  #ended: Problem | undefined
  #wake = () => {}

  constructor(url: string, answer: BundleAnswer, options: FetcherOptions) {
    this.#url = url
    this.#answer = answer
    this.#options = options
  }

  async *chunks(): AsyncIterable<Buffer> {
    const { bytes } = this.#answer
    const stop = (this.#options.wait ?? timer)(TOTAL_MS, () => this.end(new Problem('download-failed', TOO_SLOW)))
    try {
      let at = 0
      for (let retries = 0; ; retries++) {
        const began = at
        for await (const chunk of this.#answer.body) {
          if (this.#ended) break
          at += chunk.length
          yield chunk
        }
        this.close()
        if (this.#ended) throw this.#ended
        if (at >= bytes) return
        if (at > began) retries = 0
        await this.#goOn(at, retries)
      }
    } finally {
      stop()
    }
  }

  end(problem: Problem): void {
    this.#ended ??= problem
    this.close()
    this.#wake()
  }

  close(): void {
    this.#answer.close()
  }

  /** Asks for the rest, until the server gives it. */
  async #goOn(offset: number, retries: number): Promise<void> {
    const { etag, bytes } = this.#answer
    if (etag === undefined) throw new Problem('download-failed', 'The download broke off, and the server cannot go on.')
    for (let again = retries; ; again++) {
      if (again >= MAX_RETRIES) throw new Problem('download-failed', 'The download broke off, and does not go on.')
      await this.#pause(Math.min(FIRST_RETRY_MS * 2 ** again, LAST_RETRY_MS))
      if (this.#ended) throw this.#ended
      try {
        const { downloads, maxBytes: max } = this.#options
        this.#answer = await downloads.bundle({ url: this.#url, max, from: { offset, etag } })
      } catch (error) {
        if (error instanceof DownloadError && error.isTransient) continue
        throw problemOf(error)
      }
      if (this.#answer.offset === offset && this.#answer.bytes === bytes) return
      throw problemOf(new DownloadError('changed'))
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const stop = (this.#options.wait ?? timer)(ms, resolve)
      this.#wake = () => {
        stop()
        resolve()
      }
    })
  }
}

const TOO_SLOW = 'The download took more than 6 hours.'

/** @returns what to show of a download that failed. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem('download-failed', `The download failed: ${reasonOf(error)}.`, { cause: error })
}

function describe(error: unknown): string {
  return error instanceof Problem ? error.message : reasonOf(error)
}
