import { join } from 'node:path'
import * as Type from 'typebox/type'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import { type BundleRoutesOptions, bundleRoutes } from '../../src/api/bundle.ts'
import type { Resource, Shared } from '../../src/api/resource.ts'
import { Topic } from '../../src/events/topic.ts'
import type { Route } from '../../src/http/route.ts'
import {
  type BundleSays,
  BundleStore,
  type BundleStoreOptions,
  type BundleWatcher,
} from '../../src/update/bundle-store.ts'

type Options = Partial<
  Omit<BundleRoutesOptions, 'store' | 'remove' | 'log'> &
    Omit<BundleStoreOptions, 'folder' | 'watcher' | 'newId' | 'log'>
> & {
  /** Where the bundle is kept; by default in the folder of the device. */
  readonly folder?: string
  readonly fs?: FileSystem
  /** Replaces the check by RAUC. */
  readonly check?: (path: string) => Promise<BundleSays>
  /** Throws to refuse receiving and removing. */
  readonly refuse?: () => void
}

/** The part of /update that is about the bundle, with the test's own check. */
export class Bundles implements Resource, BundleWatcher {
  readonly topic: Topic
  readonly eventsPath = '/update/events'
  readonly events = { 'update.changed': Type.Object({}) }
  readonly routes: readonly Route[]
  readonly store: BundleStore
  readonly folder: string
  /** Calls from the store: `receiving 0 of 100`, `100`, `received`, `dropped 408`. */
  readonly told: string[] = []
  readonly #options: Options

  constructor({ system, ring, log }: Shared, options: Options = {}) {
    this.#options = options
    this.folder = options.folder ?? join(system.root, 'data/update')
    this.topic = new Topic({ name: 'update', grant: 'admin:r', snapshot: () => '{}', ...ring })
    const folder = new Files(this.folder, options.fs)
    this.store = new BundleStore({ ...options, folder, watcher: this, newId: ring.newId, log })
    this.routes = bundleRoutes({
      store: this.store,
      remove: precondition => this.store.remove(precondition),
      log,
      maxBytes: 1024 ** 3,
      requirePossible: () => undefined,
      ...options,
    })
  }

  start(): Promise<void> {
    return this.store.start()
  }

  stop(): Promise<void> {
    return this.store.stop()
  }

  receiving(_: string, bytes: number, receivedBytes: number): void {
    this.#options.refuse?.()
    this.told.push(`receiving ${receivedBytes} of ${bytes}`)
  }

  progress(receivedBytes: number): void {
    // Only the last one is kept: there may be thousands.
    if (/^\d+$/.test(this.told.at(-1) ?? '')) this.told.pop()
    this.told.push(String(receivedBytes))
  }

  async received(path: string): Promise<BundleSays> {
    this.told.push('received')
    return this.#options.check?.(path) ?? { version: '1.1.0', receivedBytes: 1, source: 'upload' }
  }

  kept(): void {
    this.told.push('kept')
  }

  dropped(problem?: { readonly status: number }): void {
    this.told.push(`dropped ${problem?.status}`)
  }

  removing(): void {
    this.#options.refuse?.()
    this.told.push('removing')
  }
}
