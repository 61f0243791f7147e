// Peers that are not on Node: nginx with nchan, and a program in C that does nothing but write.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../support/port.ts'
import { has } from '../cores.ts'
import type { Server } from '../server.ts'
import { requestText } from '../wire.ts'
import { peerToken } from './node-peers.ts'
import { type Kind, NUMBER, OUT, patchRequest, type Subject, startPinned, subscription } from './subject.ts'

const TEMPLATE = 'test/bench/peers/nginx.conf'
const MODULE = '/usr/lib/nginx/modules/ngx_nchan_module.so'
/** Extra bytes of our events: nchan's id is shorter than a UUID. Padded, its events are equally long. */
const ID_DIFFERENCE = 24

class Nchan implements Subject {
  readonly name = 'nchan'
  readonly missing = has('nginx') && existsSync(MODULE) ? undefined : 'nginx-light libnginx-mod-nchan'
  /** nginx compares it as text, so there is no signature to check. */
  readonly #token = peerToken()

  async start(): Promise<Server> {
    const port = await freePort()
    const prefix = join(OUT, 'nginx')
    mkdirSync(prefix, { recursive: true })
    const values: Readonly<Record<string, string>> = {
      PORT: String(port),
      PREFIX: prefix,
      MODULE,
      TOKEN: this.#token,
    }
    const configuration = readFileSync(TEMPLATE, 'utf8').replace(/@([A-Z]+)@/g, (_, name) => values[name] ?? '')
    const file = join(prefix, 'nginx.conf')
    writeFileSync(file, configuration)
    const argv = ['nginx', '-p', prefix, '-c', file, '-e', 'stderr']
    return startPinned({ argv, port, request: requestText({ path: '/' }) })
  }

  token(): string {
    return this.#token
  }

  publish(): string {
    const body = JSON.stringify({ deviceName: NUMBER.padEnd(NUMBER.length + ID_DIFFERENCE) })
    const headers = ['X-EventSource-Event: system.changed']
    return requestText({ method: 'POST', path: '/publish', token: this.#token, headers, body })
  }

  /** It has one channel, at a path for each kind. */
  subscribe(kind: Kind): string {
    return subscription(this.#token, kind, `/${kind}`)
  }
}

class Limit implements Subject {
  readonly name = 'C limit'
  readonly #token = peerToken()

  async start(): Promise<Server> {
    const port = await freePort()
    const argv = [join(OUT, 'limit'), String(port), this.#token]
    return startPinned({ argv, port, request: requestText({ path: '/' }) })
  }

  token(): string {
    return this.#token
  }

  publish(): string {
    return patchRequest(this.#token)
  }

  /** It answers any GET with a stream. */
  subscribe(kind: Kind): string {
    return subscription(this.#token, kind)
  }
}

export const nchan = new Nchan()
export const limit = new Limit()
