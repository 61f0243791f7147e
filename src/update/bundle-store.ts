import type { Files } from '../../hal/files/files.ts'
import type { GrowingFile } from '../../hal/files/growing.ts'
import { BUNDLE_KEPT_MS, BUNDLE_RESERVE_BYTES, BUNDLE_SYNC_BYTES } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { type BundleRecord, PART, readRecord, removeBundle, WHOLE, writeRecord } from './bundle-record.ts'
import type { Source, UpdateState } from './state.ts'
import { describeRefusal, storageProblem } from './storage-problem.ts'

/** The description of a complete bundle. */
export type BundleSays = UpdateState['bundle']

/** Follows the store's work, and may refuse a step. */
export interface BundleWatcher {
  /** The transfer of a bundle begins or resumes. @throws {Problem} 409 if no transfer is possible now. */
  receiving(source: Source, bytes: number, receivedBytes: number): void
  progress(receivedBytes: number): void
  /**
   * The bundle is complete and synced at `path`, and nothing replaces it until the promise settles.
   * @throws {Problem} 422 if the bundle is refused.
   */
  received(path: string): Promise<BundleSays>
  /** The bundle passed the check, and can be installed. */
  kept(says: BundleSays): void
  /** The transfer broke off, or the bundle was refused. Without a problem, the transfer had stalled for too long. */
  dropped(problem?: Problem): void
  /** The bundle is about to be removed. @throws {Problem} 409 if it cannot be removed now. */
  removing(): void
}

/** A source of bytes, read no faster than they are consumed. */
export interface Incoming {
  chunks(): AsyncIterable<Buffer>
  /** Ends the transfer: the pending read rejects with `problem`. */
  end(problem: Problem): void
}

/** A whole bundle, or the rest of one. */
export interface Upload {
  readonly source: Source
  /** Size of the whole bundle. */
  readonly bytes: number
  /** Offset in the bundle of the first byte of `incoming`. An upload at 0 replaces the stored bundle. */
  readonly offset: number
  readonly incoming: Incoming
  /** The origin, if a later run of the service is to resume the transfer. */
  readonly origin?: Origin
}

type Origin = NonNullable<BundleRecord['origin']>

/** A download that an earlier run of the service began. */
export interface Unfinished extends Origin {
  /** Size of the whole bundle. */
  readonly bytes: number
  /** Offset of the first missing byte. */
  readonly offset: number
}

/** A stored bundle, complete or partial. */
export interface BundleState {
  readonly etag: string
  readonly source: Source
  readonly bytes: number
  readonly receivedBytes: number
  /** The path of the bundle; undefined until it is complete and checked. */
  readonly path: string | undefined
}

export interface BundleStoreOptions {
  /** A folder for the bundle alone. */
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
 * Stores at most one firmware bundle. If a transfer breaks off, the part received is kept for an hour, even across a restart
 * of the service, so that the transfer can resume. A complete bundle is synced, then checked, and removed if it is refused.
 */
export class BundleStore {
  readonly #options: Required<BundleStoreOptions>
  #record: BundleRecord | undefined
  /** Bytes received, synced or not. */
  #receivedBytes = 0
  /** The work in progress. It can be ended only while it waits for bytes. */
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

  /** The download to resume; undefined if there is none, or if the store is busy. */
  get unfinished(): Unfinished | undefined {
    if (!this.#record?.origin || this.#work) return undefined
    const { origin, bytes } = this.#record
    return { ...origin, bytes, offset: this.#receivedBytes }
  }

  /** Restores the bundle that an earlier run left, and checks a bundle that is complete but not yet checked. */
  async start(): Promise<void> {
    const { folder, log } = this.#options
    await folder.makeRoot(FOLDER_MODE)
    try {
      this.#record = await readRecord(folder)
    } catch (error) {
      log('warning', `update: the stored bundle is unusable: ${describeRefusal(error)}`)
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

  /** Resolves when the work in progress is done. It does not wait for an upload: the server no longer reads its body. */
  async stop(): Promise<void> {
    clearTimeout(this.#removal)
    await this.#work?.done
  }

  /**
   * Receives a bundle; resolves with its description once it is complete, synced and checked.
   * @throws {Problem} 409, 422, 500, 507, or a problem of the chunks. The part received is kept, unless the storage failed or
   * the bundle was refused.
   */
  async receive(upload: Upload): Promise<BundleSays> {
    const { watcher } = this.#options
    this.#requireIdle()
    if (upload.offset > 0) this.#requireOffset(upload)
    return this.#run(upload.incoming, async () => {
      // The stored bundle stays until the new one begins to arrive.
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

  /**
   * Removes the bundle, and ends its transfer.
   * @param precondition Called whenever another bundle may have come in between; throws if this one must not be removed.
   * @throws {Problem} 409 while the bundle is being installed.
   */
  async remove(precondition: () => void = () => undefined): Promise<void> {
    precondition()
    while (this.#work) {
      this.#work.incoming?.end(new Problem('conflict', 'The bundle was removed while it was received.'))
      await this.#work.done
      precondition()
    }
    this.#options.watcher.removing()
    await this.#run(undefined, () => this.#discard())
  }

  /** Forgets the origin of an unfinished download, so that the service does not resume it. */
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

  /** Appends all chunks to the partial bundle, and syncs it. */
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
      // Bytes that were not synced may be lost, and other programs need the space.
      if (!(error instanceof Problem)) await this.#discard()
      throw error
    } finally {
      this.#keepForAWhile()
    }
  }

  /** @throws {Problem} 507 */
  async #requireRoom({ bytes, offset }: Upload): Promise<void> {
    const { folder, reserveBytes } = this.#options
    // A new bundle replaces the old one.
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

  /** Checks the complete part, and makes it the bundle unless it is refused. The record is written before the rename. */
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

  /** Removes a partial bundle after `keptMs`, unless its transfer resumes. */
  #keepForAWhile(): void {
    const { keptMs, watcher, log } = this.#options
    clearTimeout(this.#removal)
    this.#removal = setTimeout(() => {
      if (this.#work || !this.#record || this.#record.isChecked) return
      log('notice', 'update: removed an incomplete bundle that had stalled')
      watcher.dropped()
      this.#run(undefined, () => this.#discard()).catch(error => log('error', `update: ${describeRefusal(error)}`))
    }, keptMs).unref()
  }
}

function wrongLength(bytes: number): Problem {
  return new Problem('bad-request', `The bundle does not have the ${bytes} bytes that were announced.`)
}
