import type { Files } from '../../hal/files/files.ts'
import type { GrowingFile } from '../../hal/files/growing.ts'
import { BUNDLE_KEPT_MS, BUNDLE_RESERVE_BYTES, BUNDLE_SYNC_BYTES } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { type BundleRecord, PART, readRecord, removeBundle, WHOLE, writeRecord } from './bundle-record.ts'
import type { Source, UpdateState } from './state.ts'
import { describeRefusal, storageProblem } from './storage-problem.ts'

/** A whole bundle, as it describes itself. */
export type BundleSays = UpdateState['bundle']

/** Follows what the store does, and may refuse it. */
export interface BundleWatcher {
  /** A bundle begins to come in, or goes on. @throws {Problem} 409 while that cannot be. */
  receiving(source: Source, bytes: number, receivedBytes: number): void
  progress(receivedBytes: number): void
  /** It is whole and durable at this path, and nothing replaces it meanwhile. @throws {Problem} 422 if it is refused. */
  received(path: string): Promise<BundleSays>
  /** It was not refused, and is there to be installed. */
  kept(says: BundleSays): void
  /** It broke off, or was refused. */
  dropped(problem?: Problem): void
  /** It is about to be removed. @throws {Problem} 409 while that cannot be. */
  removing(): void
}

/** Bytes that come from somewhere, no faster than they are taken. */
export interface Incoming {
  chunks(): AsyncIterable<Buffer>
  /** Makes the chunk that is awaited this problem. */
  end(problem: Problem): void
}

/** All of a bundle, or its rest. */
export interface Upload {
  readonly source: Source
  /** Of the whole bundle. */
  readonly bytes: number
  /** Of its first byte in `incoming`. At 0, it takes the place of the bundle that is there. */
  readonly offset: number
  readonly incoming: Incoming
  /** Where it comes from, if a later run of the service is to go on with it. */
  readonly origin?: Origin
}

type Origin = NonNullable<BundleRecord['origin']>

/** A download that an earlier run of the service has begun. */
export interface Unfinished extends Origin {
  /** Of the whole bundle. */
  readonly bytes: number
  /** Of the first byte that is missing. */
  readonly offset: number
}

/** A bundle, or what has come of it. */
export interface BundleState {
  readonly etag: string
  readonly source: Source
  readonly bytes: number
  readonly receivedBytes: number
  /** Where it is; undefined until it is whole and was checked. */
  readonly path: string | undefined
}

export interface BundleStoreOptions {
  /** Has nothing but the bundle in these files. */
  readonly folder: Files
  readonly watcher: BundleWatcher
  readonly newId: () => string
  readonly log: Log
  readonly keptMs?: number
  readonly syncBytes?: number
  readonly reserveBytes?: number
}

const FOLDER_MODE = 0o700

/**
 * The folder of the one firmware bundle. A bundle comes in piece by piece; what has come is kept for an hour when it breaks
 * off, also over a restart of the service, so that it can go on from there. When it is whole and durable it is checked, and
 * removed if it is refused.
 */
export class BundleStore {
  readonly #options: Required<BundleStoreOptions>
  #record: BundleRecord | undefined
  /** Bytes of the part, durable or not. */
  #receivedBytes = 0
  /** The work in progress: it can be ended only while it waits for bytes. */
  #work: { readonly incoming: Incoming | undefined; readonly done: Promise<unknown> } | undefined
  #removal: NodeJS.Timeout | undefined

  constructor(options: BundleStoreOptions) {
    this.#options = {
      keptMs: BUNDLE_KEPT_MS,
      syncBytes: BUNDLE_SYNC_BYTES,
      reserveBytes: BUNDLE_RESERVE_BYTES,
      ...options,
    }
  }

  get current(): BundleState | undefined {
    if (!this.#record) return undefined
    const { etag, source, bytes, isChecked } = this.#record
    const path = isChecked ? this.#options.folder.root + WHOLE : undefined
    return { etag, source, bytes, receivedBytes: this.#receivedBytes, path }
  }

  /** The part of the bundle that is to be fetched; undefined if there is none. */
  get unfinished(): Unfinished | undefined {
    if (!this.#record?.origin || this.#work) return undefined
    const { origin, bytes } = this.#record
    return { ...origin, bytes, offset: this.#receivedBytes }
  }

  /** Takes up what an earlier run left. A part that is whole was not checked yet. */
  async start(): Promise<void> {
    const { folder, log } = this.#options
    await folder.makeRoot(FOLDER_MODE)
    try {
      this.#record = await readRecord(folder)
    } catch (error) {
      log('warning', `update: what was left of a bundle cannot be used: ${describeRefusal(error)}`)
    }
    if (!this.#record) return removeBundle(folder)
    this.#receivedBytes = this.#record.receivedBytes
    if (this.#record.isChecked) return
    this.#keepForAWhile()
    if (this.#receivedBytes < this.#record.bytes) return
    const { source, bytes } = this.#record
    this.#run(undefined, async () => {
      this.#options.watcher.receiving(source, bytes, bytes)
      await this.#check()
    }).catch(error => log('warning', `update: the bundle was refused: ${describeRefusal(error)}`))
  }

  /** Resolves when what goes on is done. The body of an upload has ended by then, as the server does not take any more. */
  async stop(): Promise<void> {
    clearTimeout(this.#removal)
    await this.#work?.done
  }

  /**
   * Receives a bundle; resolves with what it says of itself when it is whole, durable and checked.
   * @throws {Problem} 409, 422, 500, 507, or as the chunks do. The part that has arrived is then kept, unless the storage failed.
   */
  async receive(upload: Upload): Promise<BundleSays> {
    const { watcher } = this.#options
    this.#requireIdle()
    if (upload.offset > 0) this.#requireOffset(upload)
    return this.#run(upload.incoming, async () => {
      // Until it begins to come, the bundle that is there stays.
      await this.#requireRoom(upload).catch(error => {
        throw storageProblem(error)
      })
      watcher.receiving(upload.source, upload.bytes, upload.offset)
      try {
        await this.#take(upload)
      } catch (error) {
        const problem = storageProblem(error)
        watcher.dropped(problem)
        throw problem
      }
      return this.#check()
    })
  }

  /** Removes the bundle, and ends its upload. @throws {Problem} 409 while it is installed. */
  async remove(): Promise<void> {
    while (this.#work) {
      this.#work.incoming?.end(new Problem('conflict', 'The bundle was removed while it was received.'))
      await this.#work.done
    }
    this.#options.watcher.removing()
    await this.#run(undefined, () => this.#discard())
  }

  /** The service does not fetch the rest. */
  async abandon(): Promise<void> {
    if (!this.unfinished || !this.#record) return
    const { origin, ...record } = this.#record
    await this.#run(undefined, () => this.#write(record))
  }

  /** @throws {Problem} 409 */
  #requireIdle(): void {
    if (!this.#work) return
    const headers = ['Retry-After', '5']
    throw new Problem('conflict', 'A bundle is being received. Wait until that has ended, or remove it.', { headers })
  }

  /** @throws {Problem} 409 */
  #requireOffset({ bytes, offset }: Upload): void {
    const expected = this.#receivedBytes
    if (this.#record && !this.#record.isChecked && this.#record.bytes === bytes && offset === expected) return
    throw new Problem('conflict', `The upload goes on at the byte ${expected} of ${this.#record?.bytes ?? 0}.`, {
      headers: ['Upload-Offset', String(expected)],
    })
  }

  #run<T>(incoming: Incoming | undefined, act: () => Promise<T>): Promise<T> {
    const run = act().finally(() => {
      this.#work = undefined
    })
    this.#work = { incoming, done: run.catch(() => undefined) }
    return run
  }

  /** Takes all chunks into the part, which is durable then. */
  async #take({ source, bytes, offset, incoming, origin }: Upload): Promise<void> {
    clearTimeout(this.#removal)
    try {
      if (offset === 0) await this.#begin(source, bytes, origin)
      const file = await this.#options.folder.grow(PART, offset)
      try {
        await this.#append(file, incoming, bytes)
      } finally {
        file.close()
      }
    } catch (error) {
      // Bytes that were not synced may be lost, and other programs need the room.
      if (!(error instanceof Problem)) await this.#discard()
      throw error
    } finally {
      this.#keepForAWhile()
    }
  }

  /** @throws {Problem} 507 */
  async #requireRoom({ bytes, offset }: Upload): Promise<void> {
    const { folder, reserveBytes } = this.#options
    // A new bundle takes the place of the old one.
    const freed = offset === 0 ? ((await folder.size(WHOLE)) ?? 0) + ((await folder.size(PART)) ?? 0) : 0
    const { availableBytes } = await folder.space()
    const missing = bytes - offset + reserveBytes - availableBytes - freed
    if (missing > 0)
      throw new Problem('no-space', `The device has too little space for the bundle: ${missing} bytes are missing.`)
  }

  async #begin(source: Source, bytes: number, origin: Origin | undefined): Promise<void> {
    await this.#discard()
    const etag = this.#options.newId()
    await this.#write({ etag, source, bytes, receivedBytes: 0, isChecked: false, ...(origin && { origin }) })
  }

  async #append(file: GrowingFile, incoming: Incoming, bytes: number): Promise<void> {
    const { watcher, syncBytes } = this.#options
    let unsynced = 0
    try {
      for await (const chunk of incoming.chunks()) {
        if (this.#receivedBytes + chunk.length > bytes) throw wrongLength(bytes)
        await file.append(chunk)
        this.#receivedBytes += chunk.length
        watcher.progress(this.#receivedBytes)
        unsynced += chunk.length
        if (unsynced < syncBytes) continue
        await this.#sync(file)
        unsynced = 0
      }
      if (this.#receivedBytes < bytes) throw wrongLength(bytes)
    } catch (error) {
      if (error instanceof Problem) await this.#sync(file)
      throw error
    }
    await this.#sync(file)
  }

  async #sync(file: GrowingFile): Promise<void> {
    await file.sync()
    if (this.#record) await this.#write({ ...this.#record, receivedBytes: this.#receivedBytes })
  }

  /** The part is whole: it becomes the bundle if it is not refused. The record says first that it may. */
  async #check(): Promise<BundleSays> {
    const { folder, watcher } = this.#options
    try {
      const says = await watcher.received(folder.root + PART)
      if (this.#record) {
        const { origin, ...record } = this.#record
        await this.#write({ ...record, isChecked: true })
      }
      await folder.rename(PART, WHOLE.slice(1))
      clearTimeout(this.#removal)
      watcher.kept(says)
      return says
    } catch (error) {
      const problem = storageProblem(error)
      watcher.dropped(problem)
      await this.#discard()
      throw problem
    }
  }

  async #write(record: BundleRecord): Promise<void> {
    await writeRecord(this.#options.folder, record)
    this.#record = record
  }

  async #discard(): Promise<void> {
    clearTimeout(this.#removal)
    this.#record = undefined
    this.#receivedBytes = 0
    await removeBundle(this.#options.folder)
  }

  /** A part that nobody goes on with is removed after some time. */
  #keepForAWhile(): void {
    const { keptMs, watcher, log } = this.#options
    clearTimeout(this.#removal)
    this.#removal = setTimeout(() => {
      if (this.#work || !this.#record || this.#record.isChecked) return
      log('notice', 'update: removed a bundle that was received in part, and stood still')
      watcher.dropped()
      this.#run(undefined, () => this.#discard()).catch(error => log('error', `update: ${describeRefusal(error)}`))
    }, keptMs).unref()
  }
}

function wrongLength(bytes: number): Problem {
  return new Problem('bad-request', `The bundle does not have the ${bytes} bytes that were announced.`)
}
