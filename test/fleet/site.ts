/**
 * A site of many devices: services in a few processes, each device at an address of its own, behind TLS as it ships, with a pin.
 * Jobs are done with it, and each is measured.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync, readlinkSync, readSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { grouped, listed } from '../../src/fleet/report.ts'
import { cpuNs, familyOf, memoryBytes } from '../bench/proc.ts'
import { digits, table } from '../bench/table.ts'
import { configurationOfNginx, NGINX } from '../interop/nginx.ts'
import { Receiver } from '../interop/support.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'
import { TestIssuer } from '../support/issuer.ts'
import { freePort } from '../support/port.ts'
import type { Output } from '../support/run.ts'
import type { Place } from './host.ts'
import { certificateOf, type Outcome, type Owner } from './support.ts'

/** So many processes: if one of them is killed, one device in ten is gone. */
const HOSTS = 10
/** The first devices are the program as it ships, a process each. */
const SHIPPED = 2
const HOST = join(REPOSITORY, 'test/fleet/host.ts')
const COMPILED = ['--require', join(REPOSITORY, 'build/run-test.cjs')]
const LOOK_MS = 50
/** Whose tokens the devices take, to read; its key is in issuer.pem. */
export const ISSUER = 'site'
/** A thousand devices on one machine are slower than a thousand machines. */
const PATIENT = ['--timeout', '60']
const MB = 1024 * 1024

export interface SiteDevice {
  readonly name: string
  /** An address of the loopback, all of which are this machine (RFC 1122 section 3.2.1.3). */
  readonly host: string
  readonly root: string
  readonly pin: string
}

/** On the address of each device: of its service, and of the server in front of it. */
interface Ports {
  readonly service: number
  readonly tls: number
}

/** A request that was answered to somebody, or broke off. */
export interface Asked {
  /** Of the device. */
  readonly host: string
  readonly method: string
  readonly uri: string
  readonly status: number
}

/** Called by a job with the process to measure. */
export type Started = (child: ChildProcess) => void

/** Devices that end together. */
class Host {
  readonly devices: readonly SiteDevice[]
  readonly #port: number
  #child: ChildProcess | undefined
  #pastNs = 0

  constructor(devices: readonly SiteDevice[], port: number) {
    this.devices = devices
    this.#port = port
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Nanoseconds of processor time so far, of all its processes. */
  get cpuNs(): number {
    return this.#pastNs + (this.pid === undefined ? 0 : cpuNs(this.pid))
  }

  async start(): Promise<void> {
    const child = fork(HOST, [], { execArgv: COMPILED, env: { PATH: process.env.PATH } })
    this.#child = child
    const places = this.devices.map(({ root, host }): Place => ({ root, listen: `${host}:${this.#port}` }))
    child.send(places)
    const [answer] = await Promise.race([once(child, 'message'), once(child, 'exit')])
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`devices do not start: exit ${answer}`)
  }

  /** Without warning, as a device loses its power. */
  async kill(): Promise<void> {
    const child = this.#child
    if (!child) return
    this.#pastNs = this.cpuNs
    this.#child = undefined
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}

interface Job {
  readonly name: string
  readonly seconds: number
  readonly requests: number
  readonly failures: readonly Outcome[]
  readonly programS: number
  readonly programBytes: number
  readonly devicesS: number
}

export class Site {
  readonly owner: Owner
  readonly devices: readonly SiteDevice[]
  /** Each has every tenth device. */
  readonly hosts: readonly Host[]
  readonly #t: Test
  readonly #ports: Ports
  readonly #shipped: readonly Receiver[]
  readonly #log: string
  readonly #jobs: Job[] = []
  #nginx = 0

  private constructor(t: Test, owner: Owner, devices: readonly SiteDevice[], ports: Ports, log: string) {
    this.#t = t
    this.owner = owner
    this.devices = devices
    this.#ports = ports
    this.#log = log
    this.hosts = Array.from(
      { length: HOSTS },
      (_, at) =>
        new Host(
          devices.filter((_, index) => index >= SHIPPED && index % HOSTS === at),
          ports.service,
        ),
    )
    this.#shipped = devices.slice(0, SHIPPED).map(({ root }) => new Receiver(root))
  }

  /**
   * Starts devices, writes the files of their owner, and gives each device the issuer of tokens.
   * @param count At least 20.
   */
  static async start(t: Test, owner: Owner, count: number): Promise<Site> {
    const ports = { service: await freePort(), tls: await freePort() }
    const issuer = new TestIssuer(ISSUER)
    owner.write('issuer.pem', issuer.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    const folder = temporaryFolder(t, IN_MEMORY)
    const certificates: string[] = []
    const devices = Array.from({ length: count }, (_, index): SiteDevice => {
      const host = `127.1.${index >> 8}.${index & 255}`
      const root = deviceRoot(t)
      mkdirSync(join(root, 'etc/receiverd/issuers'), { recursive: true, mode: 0o755 })
      const file = issuer.file({ roles: ['admin:r', 'moderator:r'] })
      writeFileSync(join(root, `etc/receiverd/issuers/${ISSUER}.json`), file, { mode: 0o644 })
      const name = `receiver-${String(index + 1).padStart(4, '0')}`
      // By it, a token is for this one.
      writeFileSync(join(root, 'etc/hostname'), `${name}\n`)
      const { cert, key, pin } = certificateOf(host)
      certificates.push(cert)
      writeFileSync(join(folder, `${host}.pem`), `${cert}${key}`, { mode: 0o600 })
      return { name, host, root, pin }
    })
    const log = join(folder, 'asked')
    const site = new Site(t, owner, devices, ports, log)
    t.teardown(() => site.#end())
    const [first, ...others] = site.hosts
    // It compiles for all of them.
    await first?.start()
    await Promise.all([
      ...others.map(host => host.start()),
      ...site.#shipped.map((receiver, at) => receiver.start(`${devices[at]?.host}:${ports.service}`)),
    ])
    site.#nginx = await startTls(t, folder, ports, log)
    owner.write('receivers.pem', certificates.join(''))
    owner.write('keys.csv', devices.map(device => `${device.name},${keyOf(device)}\n`).join(''))
    return site
  }

  /** Writes the fleet file. @param settings Of every device. @param more The file's other members. */
  want(settings: object, more: object = {}): void {
    const devices = this.devices.map(device => {
      const place = { address: `${device.host}:${this.#ports.tls}`, pin: device.pin, groups: ['site'] }
      return `  ${device.name}: ${JSON.stringify(place)}\n`
    })
    const members = { keys: 'keys.csv', settings, groups: { site: {} }, ...more }
    const head = Object.entries(members).map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
    this.owner.write('fleet.yaml', `${head.join('')}devices:\n${devices.join('')}`)
  }

  /** A job of receiverd-fleet: with `--json`, what became of each device. */
  async fleet(name: string, args: readonly string[]) {
    let output: Output | undefined
    const of = await this.job(name, async measured => {
      output = await this.owner.run([...args, '--json', ...PATIENT], {}, measured)
      if (output.stdout === '') throw new Error(output.stderr)
      return (JSON.parse(output.stdout) as { devices: readonly Outcome[] }).devices
    })
    return { status: output?.status, stderr: output?.stderr ?? '', of: Object.fromEntries(of.map(o => [o.device, o])) }
  }

  /**
   * Does a job, and measures it, for the table. Any work on devices is a job: another program's, too.
   * @param act Says which process is measured, and returns what became of each device.
   */
  async job(name: string, act: (measured: Started) => Promise<readonly Outcome[]>): Promise<readonly Outcome[]> {
    const from = this.mark()
    const cpuBefore = this.#devicesNs
    const began = performance.now()
    const program = { ns: 0, bytes: 0 }
    const ended = new AbortController()
    let watching = Promise.resolve()
    try {
      const outcomes = await act(child => {
        watching = watch(child.pid, program, ended.signal)
      })
      const seconds = (performance.now() - began) / 1000
      const failures = outcomes.filter(({ state }) => state === 'failed')
      const requests = this.asked(from).length
      const devicesS = (this.#devicesNs - cpuBefore) / 1e9
      const [programS, programBytes] = [program.ns / 1e9, program.bytes]
      this.#t.comment(`${name}: ${digits(seconds)} s`)
      this.#jobs.push({ name, seconds, requests, failures, programS, programBytes, devicesS })
      return outcomes
    } finally {
      ended.abort()
      await watching
    }
  }

  /** For `asked`: the requests until now. */
  mark(): number {
    return statSync(this.#log).size
  }

  /** Requests to devices since, without the scrapes of Prometheus. */
  asked(from: number): readonly Asked[] {
    return this.answered(from).filter(({ uri }) => uri !== '/api/v1/metrics')
  }

  /** The same with them. */
  answered(from: number): readonly Asked[] {
    // Nothing before it is read again: it is looked at often.
    const bytes = Buffer.alloc(this.mark() - from)
    const log = openSync(this.#log, 'r')
    readSync(log, bytes, 0, bytes.length, from)
    closeSync(log)
    const lines = bytes.toString('latin1').split('\n').slice(0, -1)
    return lines.map(line => {
      const [host = '', method = '', uri = '', status] = line.split(' ')
      return { host, method, uri, status: Number(status) }
    })
  }

  /** Asks a device with a key, on its own address. @returns the status. */
  async statusWith({ host }: SiteDevice, key: string): Promise<number> {
    const headers = { Authorization: `Bearer ${key}` }
    const response = await fetch(`http://${host}:${this.#ports.service}/api/v1/credential`, { headers })
    await response.arrayBuffer()
    return response.status
  }

  /** The keys in the owner's file. */
  keys(): ReadonlyMap<string, string> {
    const lines = this.owner.read('keys.csv').trim().split('\n')
    return new Map(
      lines.map(line => {
        const [name = '', ...keys] = line.split(',')
        return [name, keys.join()] as const
      }),
    )
  }

  /** The measurements, as text. @param prometheus Its process. */
  report(prometheus: number): string {
    const heading = ['job', 'seconds', 'requests', 'failed', 'its CPU s', 'its MB', 'devices CPU s']
    const rows = this.#jobs.map(job => [
      job.name,
      digits(job.seconds),
      String(job.requests),
      String(job.failures.length),
      digits(job.programS),
      (job.programBytes / MB).toFixed(0),
      digits(job.devicesS),
    ])
    const failures = this.#jobs.flatMap(({ name, failures }) =>
      Array.from(
        grouped(failures, ({ reason }) => reason),
        ([reason, those]) =>
          `${name}: ${those.length} failed, ${listed(those.map(({ device }) => device))}: ${reason}\n`,
      ),
    )
    const shipped = this.#shipped.map(({ pid }) => pid)
    const shared = this.hosts.flatMap(({ pid }) => pid ?? [])
    const inHosts = this.hosts.reduce((sum, { devices }) => sum + devices.length, 0)
    const mean = (sum: number, count: number) => (sum / count / MB).toFixed(1)
    const sum = (pids: readonly number[], name: 'Rss' | 'Pss') =>
      pids.reduce((bytes, pid) => bytes + rollup(pid, name), 0)
    const memory = [
      `a device as it ships, a process: RSS ${mean(sum(shipped, 'Rss'), shipped.length)} MB, PSS ${mean(sum(shipped, 'Pss'), shipped.length)} MB`,
      `a device among ${Math.round(inHosts / HOSTS)} in a process: PSS ${mean(sum(shared, 'Pss'), inHosts)} MB`,
      `a device: CPU ${digits(this.#devicesNs / 1e6 / this.devices.length)} ms, user and system, since it started`,
      `nginx in front of all: CPU ${digits(familyOf(this.#nginx).reduce((ns, pid) => ns + cpuNs(pid), 0) / 1e9)} s`,
      `Prometheus: ${mean(rollup(prometheus, 'Rss'), 1)} MB, CPU ${digits(cpuNs(prometheus) / 1e9)} s`,
    ]
    return `${table([heading, ...rows])}${failures.join('')}${memory.join('\n')}`
  }

  /** Of all devices so far. */
  get #devicesNs(): number {
    const shipped = this.#shipped.reduce((ns, { pid }) => ns + cpuNs(pid), 0)
    return this.hosts.reduce((ns, host) => ns + host.cpuNs, shipped)
  }

  async #end(): Promise<void> {
    await Promise.all([...this.hosts, ...this.#shipped].map(each => each.kill()))
  }
}

/** The time zone that a device has, from its files. */
export function zoneOf({ root }: SiteDevice): string {
  return readlinkSync(join(root, 'etc/localtime')).replace(/^.*zoneinfo\//, '')
}

function keyOf({ root }: SiteDevice): string {
  return readFileSync(join(root, 'var/lib/receiverd/api-key'), 'utf8').trim()
}

/**
 * One nginx as on a device, for all of them: each address has a certificate of its own, and leads to the service on it.
 * @param folder Has ADDRESS.pem, the certificate and the key of each.
 * @param log Gets a line for each request.
 * @returns its process.
 */
async function startTls(t: Test, folder: string, ports: Ports, log: string): Promise<number> {
  const path = join(folder, 'nginx.conf')
  writeFileSync(log, '')
  writeFileSync(
    path,
    configurationOfNginx(folder, {
      'user www-data;': process.getuid?.() === 0 ? 'user root;' : '',
      'worker_processes 1;': 'worker_processes 2;',
      'ssl_certificate /etc/receiverd/tls/certificate.pem': `ssl_certificate ${folder}/$server_addr.pem`,
      'ssl_certificate_key /etc/receiverd/tls/key.pem': `ssl_certificate_key ${folder}/$server_addr.pem`,
      // A server of its own for each device.
      'limit_conn_zone $client_network': 'limit_conn_zone $server_addr$client_network',
      'proxy_pass http://receiverd;': `proxy_pass http://$server_addr:${ports.service};`,
      'listen 80;': `listen unix:${folder}/80;`,
      'listen 443 ssl;': `listen ${ports.tls} ssl http2;`,
      'server_tokens off;': "server_tokens off; log_format asked '$server_addr $request_method $request_uri $status';",
      'error_page 429 @too-many;': `access_log ${log} asked; error_page 429 @too-many;`,
    }),
  )
  const nginx = spawn(NGINX ?? '', ['-p', folder, '-e', 'stderr', '-c', path, '-g', 'daemon off;'], {
    stdio: 'inherit',
  })
  t.teardown(() => nginx.kill())
  await eventually(() => nginx.exitCode !== null || statSync(`${folder}/pid`, { throwIfNoEntry: false }) !== undefined)
  if (nginx.exitCode !== null) throw new Error('nginx does not start')
  return nginx.pid ?? 0
}

/** Looks at a process until it has ended, for the processor time and the largest memory of it and its descendants. */
async function watch(pid: number | undefined, seen: { ns: number; bytes: number }, ended: AbortSignal): Promise<void> {
  while (pid !== undefined && !ended.aborted) {
    try {
      const family = familyOf(pid)
      seen.ns = family.reduce((ns, member) => ns + cpuNs(member), 0)
      seen.bytes = Math.max(
        seen.bytes,
        // One that has just ended has none. It is looked at often, and smaps_rollup walks all pages.
        family.reduce((bytes, member) => bytes + (memoryBytes(member, 'VmRSS') || 0), 0),
      )
    } catch {
      // It ended while it was looked at.
      return
    }
    await sleep(LOOK_MS)
  }
}

/** Bytes of a process's memory, by a name of smaps_rollup (proc(5)). */
function rollup(pid: number, name: 'Rss' | 'Pss'): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1])
}
