import { reasonOf } from '../../hal/errors.ts'
import { masked } from '../../hal/format/bundle-url.ts'
import { type BundleAnswer, type BundleRequest, DownloadError, type Downloads } from '../../hal/os/downloads.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import type { BundleStore, Incoming } from './bundle-store.ts'
import { pause, timer, type Wait } from './wait.ts'

/** Milliseconds before a broken download is retried; doubled after each fruitless try, up to the last value. */
const FIRST_RETRY_MS = 5_000
const LAST_RETRY_MS = 5 * 60_000
/** Fruitless retries in a row before the download fails. With their pauses, they take a quarter of an hour. */
const MAX_RETRIES = 8
/** Milliseconds that a whole download may take. */
const TOTAL_MS = 6 * 60 * 60_000

export interface FetcherOptions {
  readonly downloads: Pick<Downloads, 'bundle'>
  readonly store: Pick<BundleStore, 'receive' | 'unfinished' | 'abandon'>
  /** Called before the server of a bundle is contacted. @throws {Problem} 409 if no download is possible now. */
  readonly asking: () => void
  /** Called when the download fails. */
  readonly failed: (problem: Problem) => void
  readonly maxBytes: number
  readonly log: Log
  readonly wait?: Wait
}

/** Downloads bundles into the store, one at a time. */
export class Fetcher {
  readonly #options: FetcherOptions
  #current: { readonly download: Download; readonly done: Promise<boolean> } | undefined
  #isStopping = false

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  get isBusy(): boolean {
    return this.#current !== undefined
  }

  /** Begins a download; the state of the update shows how it ends. @throws {Problem} 409 if no download is possible now. */
  begin(url: string): void {
    void this.fetch(url)
  }

  /** Downloads a bundle. @returns whether the store has it, once the download has ended. @throws as `begin` */
  fetch(url: string): Promise<boolean> {
    if (this.#current) throw new Problem('conflict', 'A bundle is being downloaded.')
    this.#options.asking()
    return this.#run(url, async download => {
      const { bytes, etag } = await download.open()
      await this.#options.store.receive({
        ...{ source: 'url', bytes, offset: 0, incoming: download },
        origin: { url, ...(etag !== undefined && { etag }) },
      })
    })
  }

  /** Resumes the download that an earlier run of the service began; restarts it if the server gave no ETag. */
  resume(): void {
    const { store, log } = this.#options
    const { unfinished } = store
    if (!unfinished) return
    const { url, etag, bytes, offset } = unfinished
    log('notice', `update: resuming the download of ${masked(url)}`)
    try {
      if (etag === undefined || offset === 0) return this.begin(url)
      const goOn = (incoming: Download) => store.receive({ source: 'url', bytes, offset, incoming })
      void this.#run(url, goOn, { offset, bytes, etag })
    } catch (error) {
      log('warning', `update: the download cannot be resumed: ${describe(error)}`)
    }
  }

  /** Ends the download, if any; resolves when it has ended. */
  async cancel(problem: Problem): Promise<void> {
    this.#current?.download.end(problem)
    await this.#current?.done
  }

  /** Ends the download, so that the next run of the service can resume it. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await this.cancel(new Problem('download-failed', 'The service has stopped.'))
  }

  #run(url: string, act: (download: Download) => Promise<unknown>, from?: Rest): Promise<boolean> {
    const { store, failed, log } = this.#options
    const download = new Download(url, this.#options, from)
    const run = async () => {
      try {
        await act(download)
        return true
      } catch (error) {
        const problem = problemOf(error)
        log('warning', `update: ${masked(url)} was not downloaded: ${problem.message}`)
        failed(problem)
        if (!this.#isStopping) await store.abandon().catch(error => log('warning', `update: ${describe(error)}`))
        return false
      } finally {
        download.close()
        this.#current = undefined
      }
    }
    const done = run()
    this.#current = { download, done }
    return done
  }
}

/** The missing rest of a bundle. */
interface Rest {
  /** Offset of its first byte in the bundle. */
  readonly offset: number
  /** Size of the whole bundle. */
  readonly bytes: number
  /** The ETag that the server gave the bundle. */
  readonly etag: string | undefined
}

/** The bytes of a download. It resumes by itself when the connection breaks off. */
class Download implements Incoming {
  readonly #url: string
  readonly #options: FetcherOptions
  readonly #stop = new AbortController()
  #rest: Rest | undefined
  #answer: BundleAnswer | undefined
  #ended: Problem | undefined

  /** @param rest The part to download, if not the whole bundle. */
  constructor(url: string, options: FetcherOptions, rest?: Rest) {
    this.#url = url
    this.#options = options
    this.#rest = rest
  }

  /** Requests the whole bundle, again while the server reports that it is busy. @throws {Problem | DownloadError} */
  async open(): Promise<BundleAnswer> {
    const isPassing = (error: DownloadError) => error.isServerBusy
    const answer = await this.#ask(undefined, { pauses: 0, isPassing })
    this.#rest = answer
    this.#answer = answer
    return answer
  }

  async *chunks(): AsyncIterable<Buffer> {
    const rest = this.#rest
    if (!rest) throw new Error('the download was not opened')
    const stop = (this.#options.wait ?? timer)(TOTAL_MS, () => this.end(new Problem('download-failed', TOO_SLOW)))
    try {
      let at = rest.offset
      for (let retries = 0; ; retries++) {
        // The first request is sent at once, also for a download that an earlier run of the service began.
        this.#answer ??= await this.#goOn({ ...rest, offset: at }, retries)
        const began = at
        for await (const chunk of this.#answer.body) {
          if (this.#ended) break
          at += chunk.length
          yield chunk
        }
        this.close()
        if (this.#ended) throw this.#ended
        if (at >= rest.bytes) return
        if (at > began) retries = 0
      }
    } finally {
      stop()
    }
  }

  end(problem: Problem): void {
    this.#ended ??= problem
    this.#stop.abort()
    this.#answer?.close()
  }

  close(): void {
    this.#answer?.close()
    this.#answer = undefined
  }

  /** Requests the rest of the bundle, again while failures are transient. */
  async #goOn({ offset, bytes, etag }: Rest, pauses: number): Promise<BundleAnswer> {
    if (etag === undefined) throw new Problem('download-failed', 'The download broke off, and the server cannot go on.')
    const isPassing = (error: DownloadError) => error.isTransient
    const answer = await this.#ask({ offset, etag }, { pauses, isPassing })
    // Parts are of the same bundle only if their strong tags are the same (RFC 9110 §15.3.7.3), which a 206 must repeat.
    if (answer.offset === offset && answer.bytes === bytes && answer.etag === etag) return answer
    answer.close()
    throw new DownloadError('changed')
  }

  /** Sends a request, again while `isPassing` accepts its failures. @param pauses Number of fruitless tries in a row so far. */
  async #ask(
    from: BundleRequest['from'],
    { pauses, isPassing }: { readonly pauses: number; readonly isPassing: (error: DownloadError) => boolean },
  ): Promise<BundleAnswer> {
    const { downloads, maxBytes: max, log, wait } = this.#options
    const { signal } = this.#stop
    let why = 'it breaks off'
    for (let again = pauses; again <= MAX_RETRIES; again++) {
      if (again > 0) await pause(Math.min(FIRST_RETRY_MS * 2 ** (again - 1), LAST_RETRY_MS), signal, wait)
      if (this.#ended) throw this.#ended
      try {
        const answer = await downloads.bundle({ url: this.#url, max, ...(from && { from }), signal })
        if (!this.#ended) return answer
        answer.close()
      } catch (error) {
        if (this.#ended) throw this.#ended
        if (!(error instanceof DownloadError) || !isPassing(error)) throw error
        why = error.message
        log('info', `update: the download will be retried: ${why}`)
      }
    }
    throw new Problem('download-failed', `The download was tried ${MAX_RETRIES + 1} times in a row: ${why}.`)
  }
}

const TOO_SLOW = 'The download took more than 6 hours.'

/** Returns the problem to show for a failed download. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem('download-failed', `The download failed: ${reasonOf(error)}.`, { cause: error })
}

function describe(error: unknown): string {
  return error instanceof Problem ? error.message : reasonOf(error)
}
