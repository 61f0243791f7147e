/** The image, booted by QEMU: its ports, its screen, and a root shell. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Api, NoAnswer } from '../support/api.ts'
import { eventually } from '../support/eventually.ts'
import { MACHINE_STATE } from '../support/machine-state.ts'
import { presented } from '../support/presented.ts'
import { A_OFFSET, addToCommandLine, type Board, DISK_BYTES, QEMU, virt } from './boards.ts'

/** A Pi, with four cores on a host with two, takes four and a half minutes, and seven beside another emulator. */
const BOOT_MS = 1_200_000
const COMMAND_MS = 240_000
/** An emulator that gets a tenth of the host takes seconds for an answer, and each abandoned answer delays the next one. */
const ANSWER_MS = 10_000
/** Milliseconds from the first answer of the API until no unit is starting any more. */
const STARTED_MS = 900_000
/** Milliseconds until a certificate is made, or made again. */
export const CERTIFICATE_MS = 180_000
/** A port of the device for the test alone: the API itself, which listens on the loopback. */
const TEST_PORT = 18080
/** On the host, the port of the API from outside, where nobody should answer. */
export const OUTSIDE_PORT = 8081
/** The shell's port on the host and on the device, for boards on which the shell is reached over the network. */
const SHELL_TCP_PORT = 2323
/** Ports on the host and on the device: the API, AirPlay's control and video, and nginx. */
const PORTS = [
  [8080, TEST_PORT],
  [OUTSIDE_PORT, 8080],
  [7001, 7001],
  [7000, 7000],
  [443, 443],
  [80, 80],
  [SHELL_TCP_PORT, SHELL_TCP_PORT],
] as const

/** Added to the image: a shell on a port to the host, which is not a console that others use, and that port. */
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
const API_SOCKET = `[Unit]
Description=The API for the test
[Socket]
ListenStream=${TEST_PORT}
Backlog=4096
TriggerLimitIntervalSec=0
`
const API_UNIT = `[Unit]
Description=The API for the test
[Service]
ExecStart=/usr/lib/systemd/systemd-socket-proxyd --connections-max=1024 127.0.0.1:8080
# Six for each connection.
LimitNOFILE=16384
`
/** The text of each unit, and the target that wants it. */
type Units = Readonly<Record<string, readonly [text: string, target?: string]>>
const API_UNITS: Units = {
  'test-api.socket': [API_SOCKET, 'sockets.target'],
  'test-api.service': [API_UNIT],
}
const SHELL_UNITS: Readonly<Record<Board['shell'], Units>> = {
  port: { 'test-shell.service': [SHELL_UNIT, 'multi-user.target'] },
  network: {
    'test-shell.socket': [`[Socket]\nListenStream=${SHELL_TCP_PORT}\nAccept=yes\n`, 'sockets.target'],
    'test-shell@.service': ['[Service]\nExecStart=-/bin/sh\nStandardInput=socket\n'],
  },
}

const missing = ['qemu-img', 'debugfs'].filter(
  tool => !['/usr/bin', '/usr/sbin', '/sbin'].some(folder => existsSync(join(folder, tool))),
)
if (missing.length > 0)
  throw new Error(`not installed: ${missing.join(', ')}; apt-get install --no-install-recommends qemu-utils e2fsprogs`)
if (!existsSync(QEMU)) throw new Error(`there is no ${QEMU}: run make qemu first`)

export interface Disk {
  readonly path: string
  readonly board: Board
}

/** Adds what the tests need to a system's file system, and replaces its files with `others`, by path. */
export function prepareSystem(
  image: string,
  board: Board,
  others: Readonly<Record<string, string | Buffer>> = {},
): void {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  const commands: string[] = []
  const write = (path: string, content: string | Buffer) => {
    const file = join(folder, basename(path))
    writeFileSync(file, content)
    commands.push(`rm ${path}`, `write ${file} ${path}`)
  }
  for (const [name, [text, target]] of Object.entries({ ...API_UNITS, ...SHELL_UNITS[board.shell] })) {
    const unit = `/etc/systemd/system/${name}`
    write(unit, text)
    if (target) commands.push(`symlink /etc/systemd/system/${target}.wants/${name} ${unit}`)
  }
  for (const [path, text] of Object.entries({ ...board.files, ...others })) write(path, text)
  execFileSync('/sbin/debugfs', ['-w', image], { input: commands.join('\n'), stdio: 'pipe' })
  rmSync(folder, { recursive: true })
}

/** A folder with a disk as it leaves the factory. Copies of it for any number of devices cost nothing. */
export function factoryDisk(board = virt): Disk {
  if (!existsSync(board.image)) throw new Error(`there is no ${board.image}: run make image first`)
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'factory.img')
  execFileSync('cp', ['--sparse=always', board.image, path])
  prepareSystem(`${path}?offset=${A_OFFSET}`, board)
  addToCommandLine(path, board.commandLine, folder)
  return { path, board }
}

export interface MachineOptions {
  /** Where to write the first console's output. */
  readonly log?: string
  /** A second network, besides the one that leads to the host: the name of the tap interface that QEMU makes. */
  readonly lan?: string
  /** Where to record every write to its disk, until it restarts. */
  readonly writeLog?: string
  /** Whether its disk is a file with the bytes at their places, for tests that read and damage it themselves. */
  readonly isPlain?: boolean
  /** Added to QEMU's environment. */
  readonly env?: Readonly<Record<string, string>>
}

/** A device. Its disk outlives a boot. */
export class Machine extends Api {
  readonly #board: Board
  /** A disk image in QEMU's format, or with `isPlain` the bytes themselves. */
  readonly disk: string
  readonly #folder: string
  readonly #log: string
  readonly #more: readonly string[]
  readonly #writeLog: string | undefined
  readonly #isPlain: boolean
  readonly #env: Readonly<Record<string, string>>
  /** The address on the host's loopback that has the device's ports. No other machine has it. */
  readonly address = `127.77.${randomInt(256)}.${randomInt(1, 255)}`
  /** Undefined while it is switched off. */
  #qemu: ChildProcess | undefined
  /** Resolves when the last emulator has exited: until then, it uses the disk. */
  isOff: Promise<unknown> = Promise.resolve()
  #shell: Socket | undefined
  #said = ''
  #key = ''

  /** @param disk a factory disk; it is not changed. */
  constructor({ path, board }: Disk, { log, lan, writeLog, isPlain = false, env = {} }: MachineOptions = {}) {
    super()
    this.#board = board
    this.#folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
    this.disk = join(this.#folder, 'disk')
    this.#log = log ?? join(this.#folder, 'console.log')
    this.#writeLog = writeLog
    this.#isPlain = isPlain
    this.#env = env
    if (writeLog !== undefined) writeFileSync(writeLog, '')
    const tap = `tap,id=lan,ifname=${lan},script=no,downscript=no`
    this.#more = lan === undefined ? [] : ['-netdev', tap, '-device', 'virtio-net-pci,netdev=lan,romfile=']
    // QEMU connects as soon as it starts. While nobody listens, the device's shell exits and is restarted every second, which
    // takes too much time in an emulator on a busy host.
    createServer(shell => this.#useShell(shell))
      .listen(this.#shellSocket)
      .unref()
    process.on('exit', () => {
      this.cutPower()
      rmSync(this.#folder, { recursive: true, force: true })
    })
    if (board.flushes && !isPlain) {
      execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', path, this.disk, `${DISK_BYTES}`])
    } else {
      execFileSync('cp', ['--sparse=always', path, this.disk])
      truncateSync(this.disk, DISK_BYTES)
    }
  }

  get url(): string {
    return `http://${this.address}:8080`
  }

  get key(): string {
    return this.#key
  }

  /** Without an answer, rejects with what the device was doing. */
  override fetch(path: string, init?: RequestInit): Promise<Response> {
    return super.fetch(path, init).catch(async error => {
      if (!(error instanceof NoAnswer)) throw error
      throw new Error(`${error.message}\n${await this.state()}`)
    })
  }

  /** What the device is doing, for the reader of a failed test. */
  state(): Promise<string> {
    return this.shell(MACHINE_STATE).catch((error: Error) => error.message)
  }

  /** Output of the first console. */
  get console(): string {
    return readFileSync(this.#log, 'utf8')
  }

  /** Switches it on, and resolves with the seconds until the API answered. */
  async boot(): Promise<number> {
    await this.isOff
    const began = performance.now()
    this.#start()
    await this.#untilUp()
    const seconds = (performance.now() - began) / 1000
    await this.reconnect()
    return seconds
  }

  /** Restarts the device by `order`; resolves when it is up again. */
  async restartsBy(order: () => Promise<void>): Promise<void> {
    const before = this.#qemu
    await order()
    await eventually(() => this.#running() !== before, BOOT_MS)
    await this.#untilUp()
    await this.reconnect()
  }

  /** Waits until the shell answers, even after the device has restarted by itself. */
  async reconnect(): Promise<void> {
    const isOverNetwork = this.#board.shell === 'network'
    if (isOverNetwork) this.#shell?.destroy()
    // Output from before this boot is not an answer.
    this.#said = ''
    // Repeats the question until the shell answers.
    await eventually(async () => {
      // QEMU accepts a connection before it knows whether the device does.
      if (isOverNetwork && this.#shell?.destroyed !== false) this.#useShell(connect(SHELL_TCP_PORT, this.address))
      this.#shell?.write('echo up\n')
      await sleep(500)
      return this.#said.includes('up')
    }, BOOT_MS)
    await this.loadKey()
  }

  /**
   * A restart of the device is a new QEMU: a processor that QEMU resets hangs once in a while, or sees memory as it was before.
   */
  #start(): void {
    rmSync(this.#monitor, { force: true })
    const forward = PORTS.map(([host, port]) => `hostfwd=tcp:${this.address}:${host}-:${port}`).join()
    const wiring = {
      disk: this.disk,
      forward,
      shell: this.#shellSocket,
      sound: this.sound,
      writeLog: this.#writeLog,
      isPlain: this.#isPlain,
    }
    const monitor = ['-monitor', `unix:${this.#monitor},server=on,wait=off`]
    const options = ['-display', 'none', '-no-reboot', ...monitor, ...this.#board.options(wiring), ...this.#more]
    const log = openSync(this.#log, 'a')
    const qemu = spawn(QEMU, options, {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...this.#env },
    })
    closeSync(log)
    qemu.once('close', status => {
      if (this.#qemu === qemu && status === 0) this.#start()
    })
    this.#qemu = qemu
    this.isOff = once(qemu, 'close')
  }

  /** Writes the screen to a file: PNG, or PPM if its name ends so. */
  async screenshot(path: string): Promise<void> {
    const monitor = connect(this.#monitor)
    monitor.on('error', () => undefined).setEncoding('utf8')
    let said = ''
    monitor.on('data', chunk => {
      said += chunk
    })
    rmSync(path, { force: true })
    monitor.write(`screendump ${path}${path.endsWith('.ppm') ? '' : ' -f png'}\n`)
    // The monitor prompts before the command, and after it.
    await eventually(() => said.split('(qemu)').length > 2, COMMAND_MS)
    monitor.destroy()
    if (!existsSync(path)) throw new Error(`no screenshot: ${said}`)
  }

  /** As if the plug were pulled: writes still in the guest's kernel are lost. */
  cutPower(): void {
    this.#shell?.destroy()
    this.#shell = undefined
    this.#qemu?.kill('SIGKILL')
    this.#qemu = undefined
  }

  /**
   * Runs a command as root on the device, and returns what it printed.
   * @throws with what it printed if its status is not 0.
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

  /** Waits until each unit has started. Rejects with those that have failed, and what they wrote. */
  async untilStarted(): Promise<void> {
    // systemctl(1) gives up if systemd is too busy to answer it.
    const state = await eventually(async () => {
      const said = await this.shell('systemctl is-system-running --wait || true', STARTED_MS)
      return /^(?:running|degraded|maintenance)$/m.exec(said)?.[0]
    }, STARTED_MS)
    if (state === 'running') return
    const failed = 'systemctl list-units --failed --plain --no-legend | cut -d" " -f1'
    const status = await this.shell(`${failed} | xargs --no-run-if-empty systemctl status --lines=30 || true`)
    throw new Error(`systemd is ${state}: ${status}`)
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
    await this.shell(`node -e '${program}'`)
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

  /** The names in the certificate that nginx presents; empty without an answer. */
  async certifiedNames(): Promise<string> {
    return (await presented(this.address))?.subjectAltName ?? ''
  }

  /** Uses another API key, after the key was replaced. */
  useKey(key: string): void {
    this.#key = key
  }

  /** The sound since it was switched on, as WAV. */
  get sound(): string {
    return join(this.#folder, 'sound.wav')
  }

  get #shellSocket(): string {
    return join(this.#folder, 'shell')
  }

  get #monitor(): string {
    return join(this.#folder, 'monitor')
  }

  /** Waits until the API answers. A device that never does is switched off: all that is asked of it then fails at once. */
  async #untilUp(): Promise<void> {
    await eventually(() => this.#isUp(), BOOT_MS).catch(error => {
      const said = this.console.slice(-4_000)
      this.cutPower()
      throw new Error(`it did not boot: ${error.message}\n${said}`)
    })
  }

  async #isUp(): Promise<boolean> {
    this.#running()
    const answer = await fetch(`${this.url}/api/v1/health`, { signal: AbortSignal.timeout(ANSWER_MS) }).catch(
      () => undefined,
    )
    return answer?.ok ?? false
  }

  /** The emulator. @throws if it is off, or has failed. */
  #running(): ChildProcess {
    if (!this.#qemu) throw new Error('it is switched off')
    const { exitCode, signalCode } = this.#qemu
    if (exitCode || signalCode) throw new Error(`QEMU ended: ${signalCode ?? exitCode}\n${this.console.slice(-500)}`)
    return this.#qemu
  }

  #useShell(shell: Socket): void {
    shell.setEncoding('utf8').on('data', chunk => {
      this.#said += chunk
    })
    shell.on('error', () => undefined)
    this.#shell = shell
  }
}
