/** Debian's mosquitto as a process: a broker over TLS for one user, and its own clients. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { eventually } from './eventually.ts'
import { temporaryFolder } from './folder.ts'
import { freePort } from './port.ts'

export interface Message {
  readonly topic: string
  readonly text: string
  /** Whether it was on the broker before the subscription. */
  readonly isRetained: boolean
}

export class Mosquitto {
  readonly port: number
  readonly user = 'receivers'
  readonly password: string
  /** The lines of its log, from all its runs. */
  readonly log: string[] = []
  readonly #folder: string
  readonly #address: string
  #process: ChildProcess | undefined

  private constructor(folder: string, address: string, port: number, password: string) {
    this.#folder = folder
    this.#address = address
    this.port = port
    this.password = password
  }

  /** @param tls The key and the certificate of the broker, for `address`. */
  static async start(
    t: Test,
    tls: { readonly key: string; readonly cert: string },
    password: string,
    address = '127.0.0.1',
  ): Promise<Mosquitto> {
    const folder = temporaryFolder(t)
    const broker = new Mosquitto(folder, address, await freePort(), password)
    const path = (name: string) => join(folder, name)
    writeFileSync(path('key.pem'), tls.key)
    writeFileSync(path('cert.pem'), tls.cert)
    execFileSync('mosquitto_passwd', ['-b', '-c', path('users'), broker.user, password])
    const lines = [
      `listener ${broker.port} ${address}`,
      `keyfile ${path('key.pem')}`,
      `certfile ${path('cert.pem')}`,
      `password_file ${path('users')}`,
      'allow_anonymous false',
      // Messages that are lost when it ends must come back from its clients.
      'persistence false',
      // As the README says for many receivers: a subscriber gets all messages at once.
      'max_queued_messages 100000',
      'log_dest stderr',
      'user root',
    ]
    writeFileSync(path('mosquitto.conf'), lines.map(line => `${line}\n`).join(''))
    t.teardown(() => broker.stop())
    await broker.start()
    return broker
  }

  async start(): Promise<void> {
    const process = spawn('mosquitto', ['-c', join(this.#folder, 'mosquitto.conf')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process = process
    const before = this.log.length
    createInterface({ input: process.stderr }).on('line', line => this.log.push(line))
    await eventually(() => this.log.slice(before).some(line => / mosquitto version \S+ running$/.test(line)))
  }

  async stop(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    if (!process || process.exitCode !== null) return
    const exited = once(process, 'exit')
    process.kill('SIGKILL')
    await exited
  }

  async publish(topic: string, text: string, ...options: readonly string[]): Promise<void> {
    await promisify(execFile)('mosquitto_pub', [...this.client(), '-q', '1', '-t', topic, '-m', text, ...options])
  }

  /** A client that receives everything, also retained messages. */
  watch(t: Test): Watcher {
    const watcher = new Watcher([...this.client(), '-t', '#', '-q', '1', '-F', '%r %t %p'])
    t.teardown(() => watcher.close())
    return watcher
  }

  /** The options with which mosquitto's clients reach the broker. */
  client(): readonly string[] {
    const { user, password, port } = this
    const place = ['-h', this.#address, '-p', String(port), '--cafile', join(this.#folder, 'cert.pem')]
    return ['-V', '5', ...place, '-u', user, '-P', password]
  }
}

/** Everything that a client received. */
export class Watcher {
  readonly messages: Message[] = []
  readonly #latest = new Map<string, string>()
  readonly #options: readonly string[]
  #process: ChildProcess
  #isClosed = false

  /** @param options Options of mosquitto_sub. */
  constructor(options: readonly string[]) {
    this.#options = options
    this.#process = this.#start()
  }

  close(): void {
    this.#isClosed = true
    this.#process.kill('SIGKILL')
  }

  #start(): ChildProcess {
    const process = spawn('mosquitto_sub', this.#options, { stdio: ['ignore', 'pipe', 'ignore'] })
    createInterface({ input: process.stdout }).on('line', line => {
      const [, retained, topic = '', text = ''] = /^([01]) (\S+) (.*)$/s.exec(line) ?? []
      this.messages.push({ topic, text, isRetained: retained === '1' })
      if (text === '') this.#latest.delete(topic)
      else this.#latest.set(topic, text)
    })
    // Over TLS, it ends when the broker does.
    process.once('exit', () => {
      if (!this.#isClosed) this.#process = this.#start()
    })
    return process
  }

  /** Topics with a message. */
  get topics(): readonly string[] {
    return [...this.#latest.keys()].sort()
  }

  text(topic: string): string | undefined {
    return this.#latest.get(topic)
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests compare it.
  json(topic: string): any {
    const text = this.#latest.get(topic)
    return text === undefined ? undefined : JSON.parse(text)
  }

  /** The texts on a topic in order, from a message on. */
  said(topic: string, from = 0): readonly string[] {
    return this.messages.slice(from).flatMap(message => (message.topic === topic ? [message.text] : []))
  }
}
