import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { firstLine } from './first-line.ts'

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
export const OUT = join(REPOSITORY, 'build/out/rig')
/** Where a disk is mounted in its mount namespace. */
export const FOLDER = join(OUT, 'mount')
const SCRIPT = fileURLToPath(new URL('disk.sh', import.meta.url))
const SETUP_MS = 60_000

const run = promisify(execFile)

/** Users and units are made known as a package's scripts do it, by the machine's own tools. */
const ENABLE = 'systemd-sysusers && systemctl --quiet enable receiverd.socket receiverd.service uxplay.service'

/** The disk of one machine, from before its first boot to after its last. */
export class Disk {
  /** 1 to 254, and of no other machine at the time. */
  readonly number: number
  /** The process that holds the mount namespace. */
  readonly #holder: ChildProcess

  private constructor(holder: ChildProcess, number: number) {
    this.#holder = holder
    this.number = number
  }

  static async create(): Promise<Disk> {
    const holder = spawn('unshare', ['--mount', 'sh', SCRIPT, join(OUT, 'root'), FOLDER], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // Out of reach of Ctrl-C: it ends with its input.
      detached: true,
    })
    const disk = new Disk(holder, Number(await firstLine(holder, SETUP_MS)))
    disk.write('/etc/machine-id', `${randomBytes(16).toString('hex')}\n`)
    return disk
  }

  /** Arguments of nsenter(1) by which a command sees it mounted. */
  get enter(): readonly string[] {
    return ['--target', `${this.#holder.pid}`, '--mount']
  }

  /** Its root folder as this process sees it. Follow no link in it: an absolute one leads out of it. */
  get #root(): string {
    return `/proc/${this.#holder.pid}/root${FOLDER}/root`
  }

  /** Lays out receiverd, and the unit of UxPlay, and enables them. */
  async install(): Promise<void> {
    const targets = ['install', 'install-uxplay', `DESTDIR=${this.#root}`]
    // The bundle is what `make build` left, whoever else is building.
    await run('make', ['-C', REPOSITORY, '--assume-old=build', ...targets], { timeout: SETUP_MS })
    const enable = `mount -t proc proc ${FOLDER}/root/proc && exec chroot ${FOLDER}/root sh -c '${ENABLE}'`
    await run('nsenter', [...this.enter, 'unshare', '--mount', 'sh', '-c', enable], { timeout: SETUP_MS })
  }

  /** While the machine is off. */
  write(path: string, text: string): void {
    const file = join(this.#root, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }

  /** Afterwards no process of the machine is left, and nothing of what it wrote. */
  async close(): Promise<void> {
    if (this.#holder.exitCode !== null || this.#holder.signalCode !== null) return
    const exited = once(this.#holder, 'exit')
    this.#holder.stdin?.end()
    await exited
  }
}
