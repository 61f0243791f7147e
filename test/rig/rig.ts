/**
 * A receiver with a real systemd: Debian's, with journald, D-Bus, avahi and UxPlay, in namespaces of its own. receiverd runs
 * in it by the units that ship. It boots in 2 s, several run at once, and none outlives the process that started it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { Api, DEADLINE_MS } from '../support/api.ts'
import { eventually } from '../support/eventually.ts'
import { Disk, FOLDER } from './disk.ts'
import { firstLine } from './first-line.ts'
import { PICTURES } from './frames.ts'

export interface RigOptions {
  /** Files that are on the disk before the first boot, by path. */
  readonly files?: Readonly<Record<string, string>>
}

/** An entry of the journal, by the names of its fields (systemd.journal-fields(7)). */
export type JournalEntry = Readonly<Record<string, string | undefined>>

const INIT = fileURLToPath(new URL('init.sh', import.meta.url))
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const BOOT_MS = 60_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
/** What no process of a machine may do: there is one clock, and one kernel with its modules, log and devices. */
const FORBIDDEN =
  '-sys_time,-wake_alarm,-sys_module,-syslog,-sys_rawio,-mknod,-mac_admin,-mac_override,-audit_control,-block_suspend'
const NAMESPACES = ['--mount', '--pid', '--uts', '--ipc', '--net']

/** Writes what a machine begins with, but for what `files` say otherwise. */
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
  #power: ChildProcess | undefined
  #pid = 0
  #key = ''

  constructor(disk: Disk) {
    super()
    this.#disk = disk
  }

  get address(): string {
    return `198.18.${this.#disk.number}.2`
  }

  get address6(): string {
    return `2001:2:0:${this.#disk.number}::2`
  }

  /** This side's address on the cable to it. */
  get hostAddress(): string {
    return `198.18.${this.#disk.number}.1`
  }

  /** systemd, as it is numbered here. */
  get pid(): number {
    return this.#pid
  }

  get url(): string {
    return `http://${this.address}:8080`
  }

  get key(): string {
    return this.#key
  }

  /** Switches it on, and resolves with the seconds until the API answered. A reboot from within is one, too. */
  async boot(): Promise<number> {
    const began = performance.now()
    const init = ['sh', INIT, FOLDER, `${this.#disk.number}`, `${process.pid}`, FORBIDDEN]
    const unshare = ['unshare', ...NAMESPACES, '--fork', '--kill-child=KILL', ...init]
    const power = spawn('setpriv', ['--pdeathsig', 'KILL', 'nsenter', ...this.#disk.enter, ...unshare], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // Out of reach of Ctrl-C.
      detached: true,
    })
    this.#power = power
    // reboot(2): in a PID namespace a restart ends its init by SIGHUP.
    power.once('exit', (_, signal) => {
      // Where it does not come back, the test finds it off.
      if (signal === 'SIGHUP' && this.#power === power) this.boot().catch(() => undefined)
    })
    this.#pid = Number(await firstLine(power, BOOT_MS))
    await eventually(() => this.#isUp(power), BOOT_MS)
    const seconds = (performance.now() - began) / 1000
    await this.loadKey()
    return seconds
  }

  /** As if the plug were pulled: every process is gone at once. What was written stays, also what was not synced. */
  async cutPower(): Promise<void> {
    await this.#off(async () => process.kill(this.#pid, 'SIGKILL'))
  }

  async powerOff(): Promise<void> {
    await this.#off(() => this.run(['systemctl', 'poweroff']))
  }

  /** Arguments of nsenter(1) by which a command, which is to follow them, runs in it as root. */
  get enter(): readonly string[] {
    if (!this.#power) throw new Error('it is switched off')
    // Only what is started by its systemd has the limits of that, and tap adds to the environment of what it starts.
    const limits = ['setpriv', `--bounding-set=${FORBIDDEN}`, 'env', '--ignore-environment', `PATH=${PATH}`]
    return ['--target', `${this.#pid}`, ...NAMESPACES, '--cgroup', ...limits]
  }

  /** Runs a command in it as root, to its end. @throws with what it printed where its status is not 0. */
  run(argv: readonly string[], input = ''): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { timeout: DEADLINE_MS, maxBuffer: MAX_OUTPUT_BYTES }
      const child = execFile('nsenter', [...this.enter, ...argv], options, (error, stdout, stderr) => {
        if (error) reject(new Error(`${argv.join(' ')}: ${child.signalCode ?? child.exitCode}: ${stdout}${stderr}`))
        else resolve(stdout)
      })
      child.stdin?.on('error', () => undefined).end(input)
    })
  }

  /** Starts a command in it that goes on, such as `journalctl --follow`. It ends with the machine. */
  spawn(argv: readonly string[]): ChildProcess {
    return spawn('nsenter', [...this.enter, ...argv])
  }

  readFile(path: string): Promise<string> {
    return this.run(['cat', path])
  }

  /** Another file takes the place, as by an editor or a package's update. */
  async replaceFile(path: string, text: string): Promise<void> {
    await this.run(['sh', '-c', 'cat >"$0.new" && mv "$0.new" "$0"', path], text)
  }

  /** The journal of all boots, or what `options` of journalctl(1) leave of it; oldest first. */
  async journal(...options: readonly string[]): Promise<JournalEntry[]> {
    const text = await this.run(['journalctl', '--quiet', '--output=json', '--all', ...options])
    return text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as JournalEntry]))
  }

  /** Whether a TCP port of it is listened on. To look does not connect, which UxPlay would take for a client. */
  isListening(port: number): boolean {
    const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
    return ['tcp', 'tcp6'].some(table =>
      readFileSync(join('/proc', `${this.#pid}`, 'net', table), 'latin1')
        .split('\n')
        // Number, local address, peer, and state: 0A is LISTEN.
        .some(line => line.trim().split(/\s+/)[1]?.endsWith(local) && line.trim().split(/\s+/)[3] === '0A'),
    )
  }

  async receiverd(...args: readonly string[]): Promise<string> {
    return (await this.run(['receiverd', ...args])).trim()
  }

  async restart(): Promise<void> {
    await this.run(['systemctl', 'restart', 'receiverd'])
  }

  async loadKey(): Promise<void> {
    this.#key = (await this.readFile('/var/lib/receiverd/api-key')).trim()
  }

  /** Switches it off for good. */
  async close(): Promise<void> {
    await this.cutPower()
    await this.#disk.close()
  }

  async #off(switchOff: () => Promise<unknown>): Promise<void> {
    const power = this.#power
    if (!power || power.exitCode !== null || power.signalCode !== null) return
    const exited = once(power, 'exit', { signal: AbortSignal.timeout(BOOT_MS) })
    await switchOff()
    this.#power = undefined
    await exited
  }

  async #isUp(power: ChildProcess): Promise<boolean> {
    if (power.exitCode !== null || power.signalCode !== null) throw new Error('it went off')
    const signal = AbortSignal.timeout(1_000)
    const answer = await fetch(`${this.url}/api/v1/health`, { signal }).catch(() => undefined)
    return answer?.ok ?? false
  }
}

/** Boots a machine with receiverd and UxPlay. It is gone after the test. */
export async function startRig(t: Test, { files = {} }: RigOptions = {}): Promise<Rig> {
  const disk = await Disk.create()
  const rig = new Rig(disk)
  t.teardown(() => rig.close())
  await disk.install()
  installFiles(disk, files)
  t.comment(`the API answered ${(await rig.boot()).toFixed(1)} s after power-on`)
  return rig
}
