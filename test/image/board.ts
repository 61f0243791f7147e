/** A Raspberry Pi with its card, and the image's real script that takes receiver.txt. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { deviceRoot } from '../support/device.ts'
import { temporaryFolder } from '../support/folder.ts'

const SCRIPT = join(REPOSITORY, 'build/image/overlay/usr/local/sbin/provision')
/** What changes something. Each call is a step at which the power can fail. */
const STEPS = ['cat', 'chmod', 'mkdir', 'mount', 'mv', 'rm', 'sed', 'shred', 'sync']

export const KEY = 'a-key-that-its-owner-knows.0123456789'
/** Every setting. */
export const ALL = `hostname=lobby
name=Lobby
api-key=${KEY}
wifi-ssid=Guests
wifi-password=correct horse
wifi-country=de
address=192.0.2.10/24
gateway=192.0.2.1
dns=192.0.2.1, 192.0.2.2
`

export class Board {
  readonly root: string
  readonly #path: string

  constructor(t: Test) {
    this.root = deviceRoot(t, 'raspberry-pi-4')
    this.#path = temporaryFolder(t)
    for (const folder of ['boot/firmware', 'proc/sys/kernel', 'var/lib/receiverd'])
      mkdirSync(join(this.root, folder), { recursive: true })
    for (const step of STEPS) this.#wrap(step)
  }

  /** Counts the call, and kills the script with all that it started if it is the one at which the power fails. */
  #wrap(step: string): void {
    const real = step === 'mount' ? `echo "$*" >>${this.root}/mounts` : `PATH=\${PATH#*:} exec ${step} "$@"`
    const count = join(this.#path, '.count')
    const lines = [`echo >>${count}`, `[ $(wc -c <${count}) -lt "$CUT" ] || kill -9 0`, real]
    writeFileSync(join(this.#path, step), `#!/bin/sh\n${lines.join('\n')}\n`, { mode: 0o755 })
  }

  /** Writes receiver.txt, as on a PC. */
  insert(text: string | Buffer): this {
    writeFileSync(join(this.root, 'boot/firmware/receiver.txt'), text)
    return this
  }

  /** @param cut Which step the power fails at; none by default. */
  boot(cut = 1_000_000) {
    writeFileSync(join(this.#path, '.count'), '')
    const { stderr, status, signal } = spawnSync('setsid', ['sh', SCRIPT, this.root], {
      encoding: 'utf8',
      env: { PATH: `${this.#path}:${process.env.PATH}`, CUT: `${cut}` },
    })
    return { stderr, status, isCut: signal !== null }
  }

  read(path: string): string | undefined {
    const file = join(this.root, path)
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined
  }

  get errors(): string {
    return this.read('/boot/firmware/receiver-errors.txt') ?? ''
  }

  /** Every file, with its mode and content. */
  get files(): Record<string, string> {
    const names = ['boot', 'etc', 'proc', 'var'].flatMap(folder =>
      readdirSync(join(this.root, folder), { recursive: true, encoding: 'utf8' }).map(name => join(folder, name)),
    )
    const files = names.filter(name => statSync(join(this.root, name), { throwIfNoEntry: false })?.isFile())
    return Object.fromEntries(
      files.map(name => [name, `${statSync(join(this.root, name)).mode.toString(8)} ${this.read(name)}`]),
    )
  }

  /** What the API would show. */
  async setting(name: string): Promise<unknown> {
    return registry(new System(this.root))
      .find(setting => setting.name === name)
      ?.read()
  }
}
