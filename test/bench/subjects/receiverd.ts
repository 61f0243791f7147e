// What is measured: the service as it ships, and what somebody would use instead. Each has a way to start it, and the
// requests that open a stream and publish an event on it.
import { execFileSync } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { freePort, has, Server } from './process.mjs'

export const OUT = resolve('build/out/bench')
const BUNDLE = resolve('build/out/receiverd.cjs')
const PEERS = resolve('test/bench/peers')
/** The Node that devices have, for the service and its peers. */
const SHIPPED = resolve(`test/bench/node_modules/node-${process.arch}/bin/node`)
const NODE = process.env.NODE ?? (existsSync(SHIPPED) ? SHIPPED : process.execPath)
export const NODE_VERSION = execFileSync(NODE, ['--version'], { encoding: 'utf8' }).trim()
const NCHAN = '/usr/lib/nginx/modules/ngx_nchan_module.so'
const SECRET = randomBytes(32).toString('base64url')
const CLAIMS = { roles: ['admin:rw'], exp: Math.floor(Date.now() / 1000) + 86_400 }
/** What Node has compiled before: the unit gives the service such a folder, and the peers get theirs. */
const COMPILED = join(OUT, 'compiled')
/** As the unit of the package starts it. */
const HEAP = '--max-old-space-size=64 --max-semi-space-size=2'
const UNIT = { NODE_OPTIONS: HEAP, MALLOC_ARENA_MAX: '1', NODE_COMPILE_CACHE: COMPILED }
/** More than the bounds that it has without settings would let in. */
const BOUNDS = { RECEIVERD_STREAMS: '65536', RECEIVERD_STREAMS_PER_ADDRESS: '1024', RECEIVERD_STALL_S: '3600' }
/** 20 times the streams of the default take more heap than the unit gives. */
export const LARGE_HEAP = { NODE_OPTIONS: HEAP.replace('64', '256') }
/** The number's place in a published event, for load.c. */
export const NUMBER = 'bench-########'
const SYSTEM = '/api/v1/system'
const EVENTS = '/api/v1/events'
const SETTING = { deviceName: NUMBER }

/** A JSON Web Token; each `sub` makes another one. */
export function mint(key, sub) {
  const encode = part => Buffer.from(JSON.stringify(part)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ ...CLAIMS, sub })}`
  return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
}

class Receiverd {
  name = 'receiverd'
  root = join(OUT, 'device')
  /** What `GET /system` answers; the peers answer with the same. */
  configuration = '{}'
  #key = Buffer.alloc(0)

  /** @param env What a scenario needs otherwise. */
  async start(env = {}) {
    rmSync(this.root, { recursive: true, force: true })
    cpSync('test/fixtures/receiver', this.root, { recursive: true, verbatimSymlinks: true })
    const port = await freePort()
    const argv = [NODE, BUNDLE, 'serve', '--root', this.root, '--listen', `127.0.0.1:${port}`]
    const server = await new Server(port, argv, { ...UNIT, ...BOUNDS, ...env }).answers('/api/v1/health')
    const apiKey = readFileSync(join(this.root, 'var/lib/receiverd/api-key'), 'utf8').trim()
    this.#key = createHmac('sha256', 'ServiceApiJwt').update(apiKey).digest()
    const headers = { Authorization: `Bearer ${this.token()}` }
    this.configuration = await (await fetch(`http://127.0.0.1:${port}${SYSTEM}`, { headers })).text()
    return server
  }

  token(sub) {
    return mint(this.#key, sub)
  }

  publish(change = SETTING) {
    return patch(this.token(), change)
  }

  subscribe(kind) {
    return subscription(this.token(), EVENTS, kind)
  }
}

/** A server on Node in a file of its own under peers/. */
class NodePeer {
  constructor(name, file) {
    this.name = name
    this.file = file
  }

  async start() {
    const port = await freePort()
    const env = {
      NODE_ENV: 'production',
      NODE_COMPILE_CACHE: COMPILED,
      PORT: String(port),
      SECRET,
      BODY: receiverd.configuration,
    }
    return new Server(port, [NODE, join(PEERS, this.file)], env).answers('/')
  }

  token(sub) {
    return mint(Buffer.from(SECRET, 'base64url'), sub)
  }

  publish(change = SETTING) {
    return patch(this.token(), change)
  }

  subscribe(kind) {
    return subscription(this.token(), EVENTS, kind)
  }
}

class Nchan {
  name = 'nchan'
  missing = has('nginx') && existsSync(NCHAN) ? undefined : 'nginx-light libnginx-mod-nchan'

  async start() {
    const port = await freePort()
    const prefix = join(OUT, 'nginx')
    mkdirSync(prefix, { recursive: true })
    const template = readFileSync(join(PEERS, 'nginx.conf'), 'utf8')
    const values = { PORT: port, PREFIX: prefix, MODULE: NCHAN, TOKEN: this.token() }
    writeFileSync(
      join(prefix, 'nginx.conf'),
      template.replace(/@([A-Z]+)@/g, (_, name) => values[name]),
    )
    return new Server(port, ['nginx', '-p', prefix, '-c', join(prefix, 'nginx.conf'), '-e', 'stderr']).answers('/')
  }

  /** nginx compares it as a text: nothing a signature would cost. */
  token() {
    return mint(Buffer.from(SECRET, 'base64url'))
  }

  publish() {
    // Its own id is shorter than a UUID; the event is as long all the same.
    const body = JSON.stringify({ deviceName: NUMBER.padEnd(NUMBER.length + 24) })
    return request('POST', '/publish', this.token(), body, 'X-EventSource-Event: system.changed\r\n')
  }

  subscribe(kind) {
    return subscription(this.token(), `/${kind}`, kind)
  }
}

class Limit {
  name = 'C limit'
  missing = has('cc') ? undefined : 'gcc libc6-dev'

  async start() {
    const port = await freePort()
    return new Server(port, [join(OUT, 'limit'), String(port), this.token()]).answers('/')
  }

  token() {
    return mint(Buffer.from(SECRET, 'base64url'))
  }

  publish() {
    return patch(this.token(), SETTING)
  }

  subscribe(kind) {
    return subscription(this.token(), '/', kind)
  }
}

function patch(token, change) {
  return request('PATCH', SYSTEM, token, JSON.stringify(change))
}

function request(method, path, token, body, more = '') {
  const head = `${method} ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\n${more}`
  return `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

function subscription(token, path, kind) {
  const accept = kind === 'stream' ? 'text/event-stream' : 'application/json'
  return `GET ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\nAccept: ${accept}\r\n`
}

export const receiverd = new Receiverd()
export const nchan = new Nchan()
export const limit = new Limit()
export const bare = new NodePeer('bare node:http', 'bare.cjs')
export const fastify = new NodePeer('Fastify', 'fastify.mjs')
export const express = new NodePeer('Express', 'express.mjs')
/** Express again, by what its streams are made with. */
export const betterSse = new NodePeer('better-sse', 'express.mjs')
