import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { firstLine } from './first-line.ts'

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
export const OUT = join(REPOSITORY, 'build/out/rig')
/** Where each disk is mounted, in a mount namespace of its own. */
export const FOLDER = join(OUT, 'mount')
const SCRIPT = fileURLToPath(new URL('disk.sh', import.meta.url))
const SETUP_MS = 60_000

const run = promisify(execFile)

/** As a package's maintainer scripts do it, with the machine's own tools. */
const ENABLE =
  'systemd-sysusers && systemctl --quiet enable receiverd.socket receiverd-engines.socket receiverd.service uxplay.service'
/** The same for the package of a target. */
const ENABLE_MORE: Readonly<Record<string, string>> = {
  'install-update': 'systemctl --quiet preset receiverd-judge.service receiverd-good.service receiverd-late.timer',
}

/** The disk of one machine. It exists before the first boot and outlives each of them. */
export class Disk {
  /** 1 to 254, unique among the machines that exist on this host. */
  readonly number: number
  /** The process that keeps the mount namespace alive. */
  readonly #holder: ChildProcess

  private constructor(holder: ChildProcess, number: number) {
    this.#holder = holder
    this.number = number
  }

  static async create(): Promise<Disk> {
    const holder = spawn('unshare', ['--mount', 'sh', SCRIPT, join(OUT, 'root'), FOLDER], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // Not in the terminal's process group: Ctrl-C must not end it before it has cleaned up.
      detached: true,
    })
    const disk = new Disk(holder, Number(await firstLine(holder, SETUP_MS)))
    disk.write('/etc/machine-id', `${randomBytes(16).toString('hex')}\n`)
    return disk
  }

  /** Arguments of nsenter(1) for a command that needs to see the mounted disk. */
  get enter(): readonly string[] {
    return ['--target', `${this.#holder.pid}`, '--mount']
  }

  /** The root folder as seen from here. Do not follow links in it: an absolute one leads to the host's files. */
  get #root(): string {
    return `/proc/${this.#holder.pid}/root${FOLDER}/root`
  }

  /** Installs and enables receiverd and the unit for UxPlay, and `more` targets of make install. */
  async install(...more: readonly string[]): Promise<void> {
    const targets = ['install', 'install-uxplay', ...more, `DESTDIR=${this.#root}`]
    // Not built again: several tests may get here at once.
    await run('make', ['-C', REPOSITORY, '--assume-old=build', ...targets], { timeout: SETUP_MS })
    await this.#run([ENABLE, ...more.flatMap(target => ENABLE_MORE[target] ?? [])].join(' && '))
  }

  /** Installs Debian packages instead, without dependencies that the machine does not have. */
  async installPackages(files: readonly string[]): Promise<void> {
    for (const file of files) copyFileSync(file, join(this.#root, 'root', basename(file)))
    await this.#run('DEBIAN_FRONTEND=noninteractive dpkg --force-depends --install /root/*.deb')
  }

  /** Runs a command of the shell on the disk, without systemd. */
  async #run(command: string): Promise<void> {
    const script = `mount -t proc proc ${FOLDER}/root/proc && exec chroot ${FOLDER}/root sh -c '${command}'`
    await run('nsenter', [...this.enter, 'unshare', '--mount', 'sh', '-c', script], { timeout: SETUP_MS })
  }

  /** Writes a file. The machine must be off. */
  write(path: string, text: string): void {
    const file = join(this.#root, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }

  /** Kills its processes, and discards what was written. */
  async close(): Promise<void> {
    if (this.#holder.exitCode !== null || this.#holder.signalCode !== null) return
    const exited = once(this.#holder, 'exit')
    this.#holder.stdin?.end()
    await exited
  }
}
