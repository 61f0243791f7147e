/** A device as the image makes it: `/etc` and `/var` are overlays whose upper folders are on the data partition. */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { finishReset } from '../../src/system/factory-reset.ts'
import { leftoversIn, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { IN_MEMORY } from '../support/folder.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { unmount } from './recorded-disk.ts'
import { inShell } from './shell.ts'

const STATE = 'var/lib/receiverd'
/** As in build/image/initramfs/scripts/init-bottom/receiver. */
const FEATURES = 'index=off,metacopy=off,redirect_dir=nofollow,xino=off'

/** The visible state of a device, which a power cut must not take away. */
export interface Seen {
  readonly settings: unknown
  readonly issuers: unknown
  readonly key: string
}

export class CrashDevice {
  /** Where the data partition is to be mounted. */
  readonly data = mkdtempSync(join(IN_MEMORY, 'receiverd-'))
  readonly #t: Test
  #root = ''

  /** @param t Whose end removes it; it must be unmounted by then. */
  constructor(t: Test) {
    this.#t = t
    t.teardown(() => rmSync(this.data, { recursive: true, force: true }))
  }

  /** Mounts the overlays on a root of its own: most disks are only looked at, and need none. */
  async cover(): Promise<void> {
    this.#root = deviceRoot(this.#t)
    mkdirSync(join(this.#root, 'var'))
    for (const name of ['etc', 'var']) {
      const [lower, upper, work] = [join(this.#root, name), ...['upper', 'work'].map(it => join(this.data, name, it))]
      for (const path of [upper, work]) mkdirSync(path as string, { recursive: true })
      const options = `lowerdir=${lower},upperdir=${upper},workdir=${work},${FEATURES}`
      await inShell(['mount', '-t', 'overlay', '-o', options, 'overlay', lower as string])
    }
    mkdirSync(join(this.#root, STATE), { recursive: true, mode: 0o700 })
  }

  async uncover(): Promise<void> {
    for (const name of ['etc', 'var']) await unmount(join(this.#root, name))
  }

  /** The data partition's content: two of the same digest are the same to the device. */
  digest(): string {
    return createHash('sha256')
      .update(JSON.stringify(treeOf(this.data)))
      .digest('hex')
  }

  /** Starts the service as the device does, after a factory reset that was ordered. */
  async start(t: Test): Promise<TestService> {
    const state = new Files(join(this.#root, STATE))
    let { options } = this.#boot()
    while (await finishReset(state, new System(this.#root, options), () => undefined)) ({ options } = this.#boot())
    return startTestService(t, { root: this.#root, ...options })
  }

  /** Programs begin with the files as they are. */
  #boot(): FakeReceiver {
    return new FakeReceiver(this.#root)
  }

  get leftovers(): readonly string[] {
    return [...leftoversIn(join(this.#root, 'etc')), ...leftoversIn(join(this.#root, STATE))]
  }
}

export async function seen(service: TestService): Promise<Seen> {
  const { value } = await service.system()
  return { settings: value, issuers: await (await service.fetch('/issuers')).json(), key: service.key }
}
