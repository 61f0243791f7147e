import type { Files } from '../../hal/files/files.ts'
import type { RaucInstaller } from '../../hal/os/rauc.ts'
import type { Clock } from '../clock.ts'
import { Topic, type TopicOptions } from '../events/topic.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import type { Hindrance, Source, UpdateState } from './state.ts'

/** When the device restarts into what was installed. */
export const RESTARTS = ['now', 'window', 'manual'] as const
export type Restart = (typeof RESTARTS)[number]

/** Restarts the device when it may. */
export interface Restarter {
  /** Whether `restart` has a window to wait for, so that it is the default. */
  readonly hasWindow: boolean
  /**
   * Restarts the device at once, or when the clock, the window and the sessions allow.
   * @param waitsFor Called with what it waits for, whenever that changes; undefined when it restarts.
   */
  restart(when: 'now' | 'window', waitsFor: (hindrance: Hindrance | undefined) => void): Promise<void>
  /** Forgets a restart that still waits. */
  cancel(): void
}

export interface UpdateOptions {
  readonly rauc: RaucInstaller
  /** The folder RECEIVERD_UPDATE; undefined without one. */
  readonly folder: Files | undefined
  readonly restarter: Restarter
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly clock: Clock
  readonly log: Log
}

/** The update of the firmware: what runs, what is there, and what goes on. One thing at a time. */
export class Update {
  readonly topic: Topic
  constructor(options: UpdateOptions) {
    this.topic = new Topic({ name: 'update', grant: 'admin:r', snapshot: () => '{}', ...options.ring })
  }
  /** Reads what runs and what an earlier run left. */
  async start(): Promise<void> {}
  stop(): void {}
  /** Whether the device can be updated; known after `start`. */
  get isPossible(): boolean {
    return false
  }
  /** @throws {Problem} 409 if the device cannot be updated this way. Each route of /update asks first. */
  requirePossible(): void {
    if (!this.isPossible) throw new Problem('conflict', 'This device cannot be updated this way.')
  }
  /** As JSON, and the id of the event that says the same. */
  get current(): { readonly id: string; readonly json: string } {
    return { id: this.topic.latestId, json: '{}' }
  }
  get state(): UpdateState {
    throw new Error('TODO')
  }

  /**
   * A bundle begins to come in, or goes on. Until `received` or `dropped`, nothing else can begin.
   * @throws {Problem} 409 while another is received, downloaded or installed.
   */
  receiving(_source: Source, _bytes: number | undefined, _receivedBytes: number): void {}
  /** How far it is. */
  progress(_receivedBytes: number): void {}
  /**
   * The bundle is whole and durable at this path: checks signature, board and version.
   * @throws {Problem} 422 `bundle-signature`, …; then the caller removes the file, and /update says `failed`.
   */
  async received(_path: string): Promise<UpdateState['bundle']> {
    return undefined
  }
  /** It broke off, or was given up. What came may be kept to go on later; `problem` is shown as `error`. */
  dropped(_problem?: Problem): void {}
  /** The bundle was removed: back to `idle`. @throws {Problem} 409 while it is installed. */
  removing(): void {}

  /** What the channel has. */
  found(_available: UpdateState['available']): void {}

  /** Installs the bundle. @param restart By default `window` if there is one, else `manual`. @throws {Problem} 409 */
  async install(_options: { restart?: Restart | undefined; allowOlder?: boolean }, _who: string): Promise<void> {}
  /** Restarts into the other system. @throws {Problem} 409 if that is not good. */
  async rollback(_who: string): Promise<void> {}
}
