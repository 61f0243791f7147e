/** The image that `make image` makes, booted by QEMU: a port to its API, and a root shell on a console of its own. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { Api } from '../support/api.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/port.ts'

const IMAGE = join(REPOSITORY, 'build/out/image')
const BOOT_MS = 180_000
const COMMAND_MS = 120_000

/** The one thing that a test adds to the image: a shell on a port to the host, which is no console that others want. */
const PORT = '/dev/virtio-ports/shell'
const SHELL_UNIT = `[Unit]
Description=A shell for the test
StartLimitIntervalSec=0
[Service]
ExecStartPre=/bin/sh -c 'until [ -e ${PORT} ]; do sleep 1; done'
ExecStart=/bin/sh -c 'exec /bin/sh <>${PORT} >&0'
Restart=always
RestartSec=1
`

const missing = ['qemu-system-aarch64', 'qemu-img', 'debugfs'].filter(
  tool => !['/usr/bin', '/usr/sbin', '/sbin'].some(folder => existsSync(join(folder, tool))),
)
if (missing.length > 0)
  throw new Error(
    `not installed: ${missing.join(', ')}; apt-get install --no-install-recommends qemu-system-arm qemu-utils e2fsprogs`,
  )
if (!existsSync(join(IMAGE, 'receiver.ext4'))) throw new Error('there is no image: run make image first')

/** A folder with a disk as it leaves the factory; copies of it, as many as there are devices, cost nothing. */
export function factoryDisk(): string {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const disk = join(folder, 'factory.ext4')
  const unit = join(folder, 'unit')
  execFileSync('cp', ['--sparse=always', join(IMAGE, 'receiver.ext4'), disk])
  writeFileSync(unit, SHELL_UNIT)
  const commands = [
    `write ${unit} /etc/systemd/system/test-shell.service`,
    'symlink /etc/systemd/system/multi-user.target.wants/test-shell.service /etc/systemd/system/test-shell.service',
  ]
  execFileSync('/sbin/debugfs', ['-w', disk], { input: commands.join('\n'), stdio: 'pipe' })
  return disk
}

export interface MachineOptions {
  /** Where to write what the first console shows. */
  readonly log?: string
}

/** A device. Its disk outlives a boot. */
export class Machine extends Api {
  readonly #disk: string
  readonly #folder: string
  readonly #log: string
  #qemu: ChildProcess | undefined
  #shell: Socket | undefined
  #said = ''
  #port = 0
  #key = ''

  /** @param disk a factory disk; it is not changed. */
  constructor(disk: string, { log }: MachineOptions = {}) {
    super()
    this.#folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
    this.#disk = join(this.#folder, 'disk.qcow2')
    this.#log = log ?? join(this.#folder, 'console.log')
    process.on('exit', () => {
      this.cutPower()
      rmSync(this.#folder, { recursive: true, force: true })
    })
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', disk, this.#disk])
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get key(): string {
    return this.#key
  }

  /** What the first console has shown. */
  get console(): string {
    return readFileSync(this.#log, 'utf8')
  }

  /** Switches it on, and resolves with the seconds until the API answered. */
  async boot(): Promise<number> {
    this.#port = await freePort()
    const socket = join(this.#folder, 'shell')
    rmSync(socket, { force: true })
    const began = performance.now()
    const qemu = spawn(
      'qemu-system-aarch64',
      [
        ...['-M', 'virt', '-cpu', 'cortex-a72', '-smp', '2', '-m', '1024', '-display', 'none', '-monitor', 'none'],
        ...['-serial', 'stdio', '-kernel', join(IMAGE, 'vmlinuz'), '-initrd', join(IMAGE, 'initrd.img')],
        ...['-append', 'root=LABEL=receiver rw console=ttyAMA0'],
        ...['-drive', `if=none,id=disk,file=${this.#disk},cache=writeback`, '-device', 'virtio-blk-pci,drive=disk'],
        ...['-netdev', `user,id=net,hostfwd=tcp:127.0.0.1:${this.#port}-:8080`],
        ...['-device', 'virtio-net-pci,netdev=net,romfile='],
        ...['-audiodev', 'none,id=sound', '-device', 'intel-hda', '-device', 'hda-output,audiodev=sound'],
        ...['-device', 'virtio-gpu-pci', '-device', 'virtio-serial-pci'],
        ...[
          '-chardev',
          `socket,id=shell,path=${socket},server=on,wait=off`,
          '-device',
          'virtserialport,chardev=shell,name=shell',
        ],
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    this.#qemu = qemu
    qemu.stdout.pipe(createWriteStream(this.#log))
    await eventually(() => this.#isUp(), BOOT_MS).catch(error => {
      throw new Error(`it did not boot: ${error.message}\n${this.console.slice(-4_000)}`)
    })
    const seconds = (performance.now() - began) / 1000
    await this.#openShell(socket)
    await this.loadKey()
    return seconds
  }

  /** As if the plug were pulled: what the guest's kernel has not written yet is lost. */
  cutPower(): void {
    this.#shell?.destroy()
    this.#qemu?.kill('SIGKILL')
    this.#qemu = undefined
  }

  /**
   * Runs a command as root on the device, and returns what it printed.
   * @throws with what it printed where its status is not 0.
   */
  async shell(command: string, withinMs = COMMAND_MS): Promise<string> {
    const shell = this.#shell
    if (!shell) throw new Error('it is switched off')
    this.#said = ''
    const mark = Math.random().toString(36).slice(2)
    shell.write(`echo '<'${mark}; ( ${command}\n) 2>&1 </dev/null; echo ${mark}'>'$?\n`)
    const answer = new RegExp(`<${mark}\n(.*)${mark}>(\\d+)\n`, 's')
    await eventually(() => answer.test(this.#said), withinMs).catch(() => {
      throw new Error(`${command} did not end: ${this.#said}`)
    })
    const [, output = '', status] = answer.exec(this.#said) ?? []
    if (status !== '0') throw new Error(`${command} failed: ${output}`)
    return output
  }

  async readFile(path: string): Promise<string> {
    return Buffer.from(await this.shell(`base64 -w 0 ${path}`), 'base64').toString()
  }

  async replaceFile(path: string, text: string): Promise<void> {
    const bytes = Buffer.from(text).toString('base64')
    await this.shell(`echo ${bytes} | base64 -d >${path}.new && mv ${path}.new ${path}`)
  }

  /** Copies a file onto the device, over its network: the host is 10.0.2.2 there. */
  async upload(file: string, path: string): Promise<void> {
    const server = createServer(socket => socket.on('error', () => undefined).end(readFileSync(file)))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const program = `require("net").connect(${port},"10.0.2.2").pipe(require("fs").createWriteStream("${path}"))`
    await this.shell(`/usr/lib/receiverd/node -e '${program}'`)
    server.close()
  }

  async receiverd(...args: string[]): Promise<string> {
    return (await this.shell(`receiverd ${args.join(' ')}`)).trim()
  }

  async restart(): Promise<void> {
    await this.shell('systemctl restart receiverd')
  }

  async loadKey(): Promise<void> {
    this.#key = await this.receiverd('key', 'show')
  }

  /** After the API key was replaced. */
  useKey(key: string): void {
    this.#key = key
  }

  async #isUp(): Promise<boolean> {
    const { exitCode, signalCode } = this.#qemu ?? {}
    if (exitCode !== null || signalCode !== null) throw new Error(`QEMU ended: ${signalCode ?? exitCode}`)
    const answer = await fetch(`${this.url}/api/v1/health`, { signal: AbortSignal.timeout(2_000) }).catch(
      () => undefined,
    )
    return answer?.ok ?? false
  }

  async #openShell(path: string): Promise<void> {
    const shell = connect(path)
    shell.setEncoding('utf8').on('data', chunk => {
      this.#said += chunk
    })
    shell.on('error', () => undefined)
    this.#shell = shell
    // Nothing that was said before this boot is an answer.
    this.#said = ''
    // Asked until somebody listens.
    await eventually(async () => {
      shell.write('echo up\n')
      await sleep(500)
      return this.#said.includes('up')
    }, BOOT_MS)
  }
}
