/** A Raspberry Pi with its card: what the service takes at its start, and the real script that changes the card. */
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { REPOSITORY } from '../../../build/bundle-file.ts'
import { HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../../hal/files/kernel.ts'
import type { Run } from '../../../hal/os/command.ts'
import { System } from '../../../hal/os/system.ts'
import { registry } from '../../../hal/registry.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { Transactions } from '../../../hal/transaction/transaction.ts'
import { ApiKeyStore } from '../../../src/auth/api-key.ts'
import { Issuers, readIssuers } from '../../../src/auth/issuers.ts'
import type { JsonObject } from '../../../src/json.ts'
import { CardTaker } from '../../../src/system/card/card.ts'
import { finishReset } from '../../../src/system/factory-reset.ts'
import { SystemStore } from '../../../src/system/store.ts'
import {
  type Intercept,
  intercepted,
  interceptedRun,
  Stopped,
  stopAt,
  systemError,
} from '../../hal/support/file-system.ts'
import { deviceRoot } from '../../support/device.ts'
import { FakeMonitors } from '../../support/fakes/monitors.ts'
import { FakeReceiver } from '../../support/fakes/receiver.ts'
import { temporaryFolder } from '../../support/folder.ts'

export const SCRIPT = join(REPOSITORY, 'build/package/card')
const UNIT = readFileSync(join(REPOSITORY, 'build/package/receiverd-card.service'), 'utf8')
/** How the unit calls the script: ExecStopPost comes last, whatever becomes of the rest (systemd.service(5)). */
const CALLS = ['ExecStart', 'ExecStopPost'].map(when => {
  const [, argument] = new RegExp(`^${when}=/usr/lib/receiverd/card (.*)$`, 'm').exec(UNIT) ?? []
  return argument === undefined ? '' : `sh "$0" ${argument} "$1" || status=$?`
})
/** Commands with effects. Each call is a step at which the power can fail. */
const STEPS = ['cat', 'mount', 'rm', 'shred', 'sync']
const FOLDER = '/boot/firmware'
export const TEXT = `${FOLDER}/receiver.txt`
const ERRORS = `${FOLDER}/receiver-errors.txt`
const STATE = 'var/lib/receiverd'
const RADIO = 'sys/class/net/wlan0'
/** Where it is while it is unplugged. */
const ASIDE = 'radio'
export const WPA = '/etc/wpa_supplicant/wpa_supplicant-wlan0.conf'

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

/** The Wi-Fi among them, as it reads. */
export const WIFI = { networks: [{ ssid: 'Guests' }], country: 'DE' }

/** Where the power fails: at which change that the service makes, or at which step of the script. Never by default. */
export interface Cut {
  readonly service?: number
  readonly script?: number
}

export interface Boot {
  readonly log: readonly string[]
  readonly isCut: boolean
  /** The API key in force. */
  readonly key: string | undefined
}

export class Board {
  readonly root: string
  readonly #path: string
  readonly #device: FakeReceiver
  readonly monitors = new FakeMonitors()
  /** Whether the unit that changes the card works. */
  isCardWritable = true
  /** What a cut of the script ends: the device, or the script alone, as systemd does with one that takes too long. */
  cuts: 'device' | 'script' = 'device'
  /** Whether the system refuses a command. */
  refuses: (command: string) => boolean = () => false
  /** Whether the system fails to change a file. */
  failsToChange: (path: string) => boolean = () => false
  /** Whether the system fails to list a folder. */
  failsToList: (path: string) => boolean = () => false

  constructor(t: Test) {
    this.root = deviceRoot(t, 'raspberry-pi-4')
    this.#path = temporaryFolder(t)
    for (const folder of ['boot/firmware', 'proc/sys/kernel', STATE, 'etc/systemd/system'])
      mkdirSync(join(this.root, folder), { recursive: true })
    this.#device = new FakeReceiver(this.root)
    for (const step of STEPS) this.#wrap(step)
    writeFileSync(join(this.#path, 'findmnt'), '#!/bin/sh\necho ro,relatime\n', { mode: 0o755 })
  }

  /** Counts the call, and kills the script, or all that runs, if it is the one at which the power fails. */
  #wrap(step: string): void {
    const real = step === 'mount' ? `echo "$*" >>${this.root}/mounts` : `PATH=\${PATH#*:} exec ${step} "$@"`
    const count = join(this.#path, '.count')
    const lines = [
      `echo >>${count}`,
      `[ $(wc -c <${count}) != "$CUT" ] || case $CUTS in device) kill -9 0 ;; *) kill -9 $PPID ;; esac`,
      real,
    ]
    writeFileSync(join(this.#path, step), `#!/bin/sh\n${lines.join('\n')}\n`, { mode: 0o755 })
  }

  /** Writes receiver.txt, as on a PC. */
  insert(text: string | Buffer): this {
    writeFileSync(join(this.root, TEXT), text)
    return this
  }

  /** Puts an issuer beside it. @param name Of its file. */
  insertIssuer(name: string, text: string): this {
    mkdirSync(join(this.root, FOLDER, 'issuers'), { recursive: true })
    writeFileSync(join(this.root, FOLDER, 'issuers', name), text)
    return this
  }

  unplugRadio(): void {
    renameSync(join(this.root, RADIO), join(this.root, ASIDE))
  }

  /** Puts it back, and has the kernel say so. */
  plugInRadio(): void {
    renameSync(join(this.root, ASIDE), join(this.root, RADIO))
    this.monitors.tell('add', 'net')
  }

  /** The issuers in force, and where each comes from. */
  async issuers(): Promise<Readonly<Record<string, string>>> {
    const { issuers } = await readIssuers(new System(this.root))
    return Object.fromEntries(issuers.map(({ name, source }) => [name, source]))
  }

  /** Starts the service, up to when it would serve; once more if a factory reset restarts the device. */
  async boot(
    { service = Number.POSITIVE_INFINITY, script = 1_000_000 }: Cut = {},
    meanwhile: (store: SystemStore, issuers: Issuers, keys: ApiKeyStore) => Promise<unknown> = async () => undefined,
  ): Promise<Boot> {
    writeFileSync(join(this.#path, '.count'), '')
    const log: string[] = []
    const write = (level: string, line: string) => void log.push(`${level}: ${line}`)
    let isCut = false
    const intercept: Intercept = stopAt(service, ({ changes, path }) => {
      if (changes && this.failsToChange(path)) throw systemError('EROFS')
    })
    const cut: Intercept = call => {
      try {
        if (isCut) throw new Stopped()
        return intercept(call)
      } catch (error) {
        if (error instanceof Stopped) isCut = true
        throw error
      }
    }
    const { options } = this.#device
    const run: Run = async argv => {
      if (argv.join(' ') === 'systemctl start receiverd-card.service') {
        if (this.#changeCard(script)) return ''
        isCut = script < 1_000_000
        throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
      }
      if (this.refuses(argv.join(' '))) throw new HalError('COMMAND_FAILED', `${argv[0]} failed with status 1`)
      return options.run?.(argv) ?? ''
    }
    const readdir: FileSystem['readdir'] = path => {
      if (this.failsToList(path)) throw systemError('EIO')
      return KERNEL.readdir(path)
    }
    const fs = { ...intercepted(cut), readdir }
    const system = new System(this.root, {
      ...options,
      monitor: this.monitors.monitor,
      run: interceptedRun(cut, run),
      fs,
    })
    const state = new Files(join(this.root, STATE), fs)
    let key: string | undefined
    try {
      if (await finishReset(state, system, write)) return this.boot({ service, script }, meanwhile)
      const keys = await ApiKeyStore.open(state, { log: write })
      const card = new CardTaker({ system, state, folder: FOLDER, log: write, linkMs: 1 })
      await card.waitForLink()
      const configuration = this.#store(system, state, write)
      await configuration.start()
      const originals = new Originals(state)
      const issuers = new Issuers({
        system,
        log: write,
        recordOriginal: (original, isNeedless) => originals.add([original], isNeedless),
      })
      await issuers.start(() => undefined)
      const takers = { configuration, keys, issuers, originals }
      await card.take(takers)
      card.follow(takers)
      await meanwhile(configuration, issuers, keys)
      key = keys.current
      await issuers.stop()
      await configuration.stop()
    } catch (error) {
      if (!isCut) throw error
    }
    // The kernel's memory is gone.
    rmSync(join(this.root, 'run/receiverd'), { recursive: true, force: true })
    return { log, isCut, key }
  }

  /** A client's act meanwhile. @returns the configuration. */
  async change(act: (store: SystemStore, state: Files) => Promise<unknown>): Promise<JsonObject> {
    const state = new Files(join(this.root, STATE))
    const store = this.#store(new System(this.root, this.#device.options), state, () => undefined)
    await store.start()
    await act(store, state)
    await store.stop()
    return JSON.parse(store.json)
  }

  #store(system: System, state: Files, log: (level: string, line: string) => void): SystemStore {
    const settings = registry(system)
    const transactions = new Transactions(system, settings, new Journal(state), new Originals(state))
    const ring = { maxEvents: 100, maxBytes: 100_000, newId: randomUUID }
    return new SystemStore({ system, state, settings, transactions, ring, log })
  }

  #changeCard(cut: number): boolean {
    if (!this.isCardWritable) return false
    const env = { PATH: `${this.#path}:${process.env.PATH}`, CUT: `${cut}`, CUTS: this.cuts }
    const unit = ['status=0', CALLS[0], '[ $CUTS = device ] || CUT=', CALLS[1], 'exit $status'].join('\n')
    return spawnSync('setsid', ['--wait', 'sh', '-c', unit, SCRIPT, this.root], { encoding: 'utf8', env }).status === 0
  }

  read(path: string): string | undefined {
    const file = join(this.root, path)
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined
  }

  get errors(): string {
    return this.read(ERRORS) ?? ''
  }

  /** Every file of the card and of the system, with its mode and content. */
  get files(): Record<string, string> {
    const names = ['boot', 'etc', 'proc', 'var'].flatMap(folder =>
      readdirSync(join(this.root, folder), { recursive: true, encoding: 'utf8' }).map(name => join(folder, name)),
    )
    const files = names.filter(name => statSync(join(this.root, name), { throwIfNoEntry: false })?.isFile())
    return Object.fromEntries(
      files.map(name => [name, `${statSync(join(this.root, name)).mode.toString(8)} ${this.read(name)}`]),
    )
  }

  /** As the API shows it. */
  async setting(name: string): Promise<unknown> {
    return registry(new System(this.root))
      .find(setting => setting.name === name)
      ?.read()
  }
}
