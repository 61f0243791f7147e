import { cpSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { currentBundle } from '../../../build/bundle-file.ts'
import { mint } from '../../../src/auth/jwt.ts'
import type { JsonObject } from '../../../src/json.ts'
import type { Server } from '../server.ts'
import { requestText } from '../wire.ts'
import {
  COMPILE_CACHE,
  type Kind,
  NODE,
  OUT,
  patchRequest,
  type Subject,
  SYSTEM,
  startPinned,
  subscription,
} from './subject.ts'

/** As the unit of the package starts it. */
const HEAP = '--max-old-space-size=64 --max-semi-space-size=2'
const UNIT = { NODE_OPTIONS: HEAP, MALLOC_ARENA_MAX: '1', NODE_COMPILE_CACHE: COMPILE_CACHE }
/** The defaults would not admit the measured load. */
const BOUNDS = { RECEIVERD_STREAMS: '65536', RECEIVERD_STREAMS_PER_ADDRESS: '1024', RECEIVERD_STALL_S: '3600' }
/** 20 times the streams of the default take more heap than the unit gives. */
export const LARGE_HEAP = { NODE_OPTIONS: HEAP.replace('64', '256') }
const EXPIRES = Math.floor(Date.now() / 1000) + 86_400

const bundle = currentBundle()

class Receiverd implements Subject {
  readonly name = 'receiverd'
  readonly #root = join(OUT, 'device')
  #apiKey = ''
  #configuration = '{}'

  async start(env: NodeJS.ProcessEnv = {}): Promise<Server> {
    rmSync(this.#root, { recursive: true, force: true })
    cpSync('test/fixtures/receiver', this.#root, { recursive: true, verbatimSymlinks: true })
    const server = await startPinned({
      argv: [NODE, bundle, 'serve', '--root', this.#root, '--listen', '127.0.0.1:0'],
      env: { ...UNIT, ...BOUNDS, ...env },
      request: requestText({ path: '/api/v1/health' }),
    })
    this.#apiKey = readFileSync(join(this.#root, 'var/lib/receiverd/api-key'), 'utf8').trim()
    const headers = { Authorization: `Bearer ${this.token()}` }
    this.#configuration = await (await fetch(`http://127.0.0.1:${server.port}${SYSTEM}`, { headers })).text()
    return server
  }

  /** The answer to `GET /system` after the last start; the peers give the same. */
  get configuration(): string {
    return this.#configuration
  }

  token(sub?: string): string {
    return tokenOf(this.#apiKey, sub)
  }

  publish(change?: JsonObject): string {
    return patchRequest(this.token(), change)
  }

  subscribe(kind: Kind, path?: string): string {
    return subscription(this.token(), kind, path)
  }
}

/** A JSON Web Token made from an API key; the peers' are as long, and cost as much. */
export function tokenOf(apiKey: string, sub?: string): string {
  return mint(apiKey, { roles: ['admin:rw', 'moderator:r'], exp: EXPIRES, sub })
}

export const receiverd = new Receiverd()
