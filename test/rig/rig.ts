/**
 * A receiver with a real systemd, journald, D-Bus, avahi and UxPlay, all from Debian, in namespaces of its own. receiverd
 * runs in it with the units that ship. It boots in 2 s, several can run at once, and none outlives its parent process.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { Api } from '../support/api.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { MACHINE_STATE } from '../support/machine-state.ts'
import { Disk, FOLDER } from './disk.ts'
import { firstLine } from './first-line.ts'
import { PICTURES } from './frames.ts'

export interface RigOptions {
  /** Files to write before the first boot, by path. */
  readonly files?: Readonly<Record<string, string>>
  /** Whether nginx is in front. The API is then also on another port, for the test alone. */
  readonly isTls?: boolean
  /** The slot of RAUC's that it is started from, if its units for updates are to be installed. */
  readonly slot?: string
  /** Whether it can download firmware. */
  readonly isUpdated?: boolean
  /** Debian packages to install, instead of `make install`. */
  readonly packages?: readonly string[]
}

/** The API itself, where it listens on the loopback alone. */
const TEST_PORT = 18080
const TEST_PORT_UNITS = {
  '/etc/systemd/system/test-api.socket': `[Socket]\nListenStream=${TEST_PORT}\n`,
  '/etc/systemd/system/test-api.service':
    '[Service]\nExecStart=/usr/lib/systemd/systemd-socket-proxyd 127.0.0.1:8080\n',
  '/etc/systemd/system/sockets.target.d/test.conf': '[Unit]\nWants=test-api.socket\n',
}

const DOWNLOAD_UNITS = {
  '/etc/systemd/system/sockets.target.d/download.conf': '[Unit]\nWants=receiverd-download.socket\n',
}

/** An entry of the journal, by the names of its fields (systemd.journal-fields(7)). */
export type JournalEntry = Readonly<Record<string, string | undefined>>

const INIT = fileURLToPath(new URL('init.sh', import.meta.url))
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const BOOT_MS = 60_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
/** Capabilities for things shared with the host: its clock, modules, kernel log and devices. */
const DROPPED =
  '-sys_time,-wake_alarm,-sys_module,-syslog,-sys_rawio,-mknod,-mac_admin,-mac_override,-audit_control,-block_suspend'
/** Signals with which systemd, as PID 1, switches off and reboots (systemd(1)). SIGRTMIN is 34 in the C library. */
const POWER_OFF = 34 + 4
const REBOOT = 34 + 5
const NAMESPACES = ['--mount', '--pid', '--uts', '--ipc', '--net']

/** Writes the factory settings, and `files` over them. */
export function installFiles(disk: Disk, files: Readonly<Record<string, string>> = {}): void {
  const { number } = disk
  const defaults = {
    '/etc/systemd/network/20-wired.network': `[Match]
Name=eth0

[Network]
Address=198.18.${number}.2/24
Address=2001:2:0:${number}::2/64
IPv6AcceptRA=no
`,
    '/etc/uxplayrc': `n "Room 4"
nh
vs "${PICTURES}"
as 0
`,
  }
  for (const [path, text] of Object.entries({ ...defaults, ...files })) disk.write(path, text)
}

export class Rig extends Api {
  readonly #disk: Disk
  readonly #port: number
  readonly #cmdline: string
  #power: ChildProcess | undefined
  #pid = 0
  #key = ''

  /** @param port Of the API, without TLS. */
  constructor(disk: Disk, port = 8080, slot?: string) {
    super()
    this.#disk = disk
    this.#port = port
    this.#cmdline = slot === undefined ? '' : `quiet rauc.slot=${slot}`
  }

  get address(): string {
    return `198.18.${this.#disk.number}.2`
  }

  get address6(): string {
    return `2001:2:0:${this.#disk.number}::2`
  }

  /** The host's end of the cable. */
  get hostAddress(): string {
    return `198.18.${this.#disk.number}.1`
  }

  /** The PID of systemd, in the host's numbering. */
  get pid(): number {
    return this.#pid
  }

  get url(): string {
    return `http://${this.address}:${this.#port}`
  }

  get key(): string {
    return this.#key
  }

  /** Switches it on. Resolves with the seconds until the API answered. */
  async boot(): Promise<number> {
    const began = performance.now()
    const init = ['sh', INIT, FOLDER, `${this.#disk.number}`, `${process.pid}`, DROPPED, this.#cmdline]
    const unshare = ['unshare', ...NAMESPACES, '--fork', '--kill-child=KILL', ...init]
    const power = spawn('setpriv', ['--pdeathsig', 'KILL', 'nsenter', ...this.#disk.enter, ...unshare], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // Not in the terminal's process group: Ctrl-C is for the test, which cuts the power.
      detached: true,
    })
    this.#power = power
    // A reboot from within kills the init of its PID namespace with SIGHUP (reboot(2)).
    power.once('exit', (_, signal) => {
      // If it fails to boot, the test notices that it is off.
      if (signal === 'SIGHUP' && this.#power === power) this.boot().catch(() => undefined)
    })
    this.#pid = Number(await firstLine(power, BOOT_MS))
    await eventually(() => this.#isUp(power), BOOT_MS)
    const seconds = (performance.now() - began) / 1000
    await this.loadKey()
    return seconds
  }

  /** Resolves when it is up after a reboot of its own, and its API answers to its present key. @param before its `pid`. */
  async untilBackFrom(before: number): Promise<void> {
    const isBack = async () => {
      if (this.#pid === before) return false
      const isLoaded = await this.loadKey().then(
        () => true,
        () => false,
      )
      return isLoaded && (await this.fetch('/system').catch(() => undefined))?.status === 200
    }
    await eventually(isBack, BOOT_MS).catch(async () => {
      const state = await this.shell(MACHINE_STATE).catch((error: Error) => error.message)
      throw new Error(`it is not back after a reboot (PID ${before} before, ${this.#pid} now)\n${state}`)
    })
  }

  /** Kills all processes at once. Unlike with a real power cut, writes that were not synced survive. */
  async cutPower(): Promise<void> {
    await this.#off(() => process.kill(this.#pid, 'SIGKILL'))
  }

  /** Shuts it down. A command for that may be a moment late to end, and the shutdown would wait for it (see `run`). */
  async powerOff(): Promise<void> {
    await this.#off(() => process.kill(this.#pid, POWER_OFF))
  }

  /** Reboots it, without a command for the same reason. Resolves when it is up again. */
  async reboot(): Promise<void> {
    const before = this.#pid
    process.kill(before, REBOOT)
    await this.untilBackFrom(before)
  }

  /** Arguments of nsenter(1) that run the command after them as root in the machine. @throws when it is off. */
  get enter(): readonly string[] {
    if (!this.#power) throw new Error('it is switched off')
    // A command from outside does not inherit systemd's limits. tap adds variables of its own to the environment.
    const limits = ['setpriv', `--bounding-set=${DROPPED}`, 'env', '--ignore-environment', `PATH=${PATH}`]
    return ['--target', `${this.#pid}`, ...NAMESPACES, '--cgroup', ...limits]
  }

  /** Runs a command as root. Resolves with its stdout. @throws with all output if its status is not 0. */
  run(argv: readonly string[], input = ''): Promise<string> {
    return new Promise((resolve, reject) => {
      // A shutdown stops all processes first (SIGSTOP). nsenter then stops itself, too, and nobody continues it: the shutdown
      // waits 90 s for the command inside, which has ended, and which nsenter does not reap.
      const options = { timeout: DEADLINE_MS, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES } as const
      const child = execFile('nsenter', [...this.enter, ...argv], options, (error, stdout, stderr) => {
        if (error) reject(new Error(`${argv.join(' ')}: ${child.signalCode ?? child.exitCode}: ${stdout}${stderr}`))
        else resolve(stdout)
      })
      child.stdin?.on('error', () => undefined).end(input)
    })
  }

  /** Starts a long-running command, such as `journalctl --follow`. It ends with the machine. */
  spawn(argv: readonly string[]): ChildProcess {
    return spawn('nsenter', [...this.enter, ...argv])
  }

  readFile(path: string): Promise<string> {
    return this.run(['cat', path])
  }

  /** Replaces a file by renaming, as an editor or a package update does. */
  async replaceFile(path: string, text: string): Promise<void> {
    await this.run(['sh', '-c', 'cat >"$0.new" && mv "$0.new" "$0"', path], text)
  }

  /** The journal, oldest entry first, filtered by `options` of journalctl(1). */
  async journal(...options: readonly string[]): Promise<JournalEntry[]> {
    // What was written just now may still be in journald's sockets.
    await this.run(['journalctl', '--sync'])
    const text = await this.run(['journalctl', '--quiet', '--output=json', '--all', ...options])
    return text.split('\n').flatMap(line => (line === '' ? [] : [readEntry(JSON.parse(line))]))
  }

  /** The log of the service's unit in the boot before. */
  async lastLog(): Promise<readonly string[]> {
    const log = await this.journal('--boot=-1', '--unit=receiverd')
    return log.map(({ MESSAGE = '' }) => MESSAGE)
  }

  /**
   * Whether the service was stopped in order when the boot before ended: by the lines of systemd, because those of the service
   * itself reach journald by another way, and may come later.
   */
  async wasStopped(): Promise<boolean> {
    const log = await this.lastLog()
    const last = (start: RegExp) => log.findLastIndex(message => start.test(message))
    return last(/^Stopped receiverd\.service/) > last(/^Start(ing|ed) receiverd\.service/)
  }

  /** Whether something listens on a TCP port. Reads the kernel's table, because UxPlay treats a connection as a client. */
  isListening(port: number): boolean {
    const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
    const tables = ['tcp', 'tcp6'].map(name => readFileSync(`/proc/${this.#pid}/net/${name}`, 'latin1'))
    // Number, local address, peer, state: 0A is LISTEN.
    const sockets = tables.flatMap(table => table.split('\n').map(line => line.trim().split(/\s+/)))
    return sockets.some(([, address, , state]) => state === '0A' && address?.endsWith(local))
  }

  async receiverd(...args: readonly string[]): Promise<string> {
    return (await this.run(['receiverd', ...args])).trim()
  }

  /** Runs a command of the shell. */
  async shell(command: string): Promise<string> {
    return this.run(['sh', '-c', command])
  }

  async restart(): Promise<void> {
    await this.run(['systemctl', 'restart', 'receiverd'])
  }

  /** Runs nothing in the machine, which may be about to reboot. */
  async loadKey(): Promise<void> {
    this.#key = (await readFile(`/proc/${this.#pid}/root/var/lib/receiverd/api-key`, 'latin1')).trim()
  }

  /** Switches it off for good. */
  async close(): Promise<void> {
    await this.cutPower()
    await this.#disk.close()
  }

  async #off(switchOff: () => void): Promise<void> {
    const power = this.#power
    if (!power || power.exitCode !== null || power.signalCode !== null) return
    switchOff()
    this.#power = undefined
    await once(power, 'exit', { signal: AbortSignal.timeout(BOOT_MS) }).catch((cause: Error) => {
      throw new Error(`it is still on, ${BOOT_MS} ms after it was switched off`, { cause })
    })
  }

  async #isUp(power: ChildProcess): Promise<boolean> {
    if (power.exitCode !== null || power.signalCode !== null) throw new Error('it went off')
    const signal = AbortSignal.timeout(1_000)
    const answer = await fetch(`${this.url}/api/v1/health`, { signal }).catch(() => undefined)
    return answer?.ok ?? false
  }
}

/** A value with control characters is an array of its bytes. */
function readEntry(fields: Readonly<Record<string, string | number[]>>): JournalEntry {
  const toText = (value: string | number[]) => (typeof value === 'string' ? value : Buffer.from(value).toString())
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, toText(value)]))
}

/** Boots a machine with receiverd and UxPlay, and removes it after the test. */
export async function startRig(
  t: Test,
  { files = {}, isTls = false, isUpdated = false, slot, packages }: RigOptions = {},
): Promise<Rig> {
  const disk = await Disk.create()
  const rig = new Rig(disk, isTls ? TEST_PORT : undefined, slot)
  t.teardown(() => rig.close())
  if (packages) await disk.installPackages(packages)
  else await disk.install(...(isTls ? ['install-tls'] : []), ...(slot || isUpdated ? ['install-update'] : []))
  installFiles(disk, { ...(isTls ? TEST_PORT_UNITS : {}), ...(isUpdated ? DOWNLOAD_UNITS : {}), ...files })
  t.comment(`the API answered ${(await rig.boot()).toFixed(1)} s after power-on`)
  return rig
}
