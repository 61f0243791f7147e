import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System, type SystemOptions } from '../../hal/os/system.ts'
import type { Setting } from '../../hal/setting.ts'
import type { Page } from '../../src/api/built-page.ts'
import type { Resource, Shared } from '../../src/api/resource.ts'
import type { Surroundings } from '../../src/api/surroundings.ts'
import { mint } from '../../src/auth/jwt.ts'
import { type Clock, systemClock } from '../../src/clock.ts'
import { type Environment, readConfig } from '../../src/config.ts'
import type { Level } from '../../src/log.ts'
import { type Service, startService } from '../../src/service.ts'
import { orderReset } from '../../src/system/factory-reset.ts'
import { Api } from './api.ts'
import { deviceRoot } from './device.ts'

export interface ServiceOptions extends SystemOptions {
  /** Settings, as the process would find them in its environment. */
  readonly env?: Environment
  readonly root?: string
  readonly clock?: Clock
  readonly builtAt?: number
  /** Carries out an ordered factory reset. */
  readonly reset?: () => void
  readonly orderReset?: Surroundings['orderReset']
  readonly page?: Page
  /** Where to listen; by default on a free port. */
  readonly listen?: string
  /** One more setting. */
  readonly setting?: (system: System) => Setting
  /** One more resource. */
  readonly add?: (shared: Shared) => Resource
}

/** A running service on real files and a real port. */
export class TestService extends Api {
  readonly root: string
  readonly log: readonly string[]
  readonly #service: Service
  readonly #startLines: number

  constructor(root: string, log: readonly string[], service: Service) {
    super()
    this.root = root
    this.log = log
    this.#startLines = log.length
    this.#service = service
  }

  /** The lines of the log since the start. */
  get said(): readonly string[] {
    return this.log.slice(this.#startLines)
  }

  get url(): string {
    return this.#service.addresses[0] ?? ''
  }

  /** The API key, from its file. */
  get key(): string {
    return readFileSync(join(this.root, 'var/lib/receiverd/api-key'), 'utf8').trim()
  }

  /** A token made from the current key. */
  token(roles: unknown, claims: object = {}): string {
    return mint(this.key, { roles, ...claims })
  }

  /** Sends bytes as they are. Resolves with the whole answer when the connection has ended. */
  raw(bytes: string | Buffer): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1', () => socket.write(bytes))
      let answer = ''
      socket.setEncoding('utf8').on('data', chunk => {
        answer += chunk
      })
      socket.on('close', () => resolve(answer))
      socket.on('error', reject)
    })
  }

  path(name: string): string {
    return join(this.root, name)
  }

  close(): Promise<void> {
    return this.#service.close()
  }
}

/** Starts a service for a test; it and its device are removed after the test. */
export async function startTestService(t: Test, options: ServiceOptions = {}): Promise<TestService> {
  const root = options.root ?? deviceRoot(t)
  const log: string[] = []
  const config = readConfig({ root, listen: options.listen ?? '127.0.0.1:0' }, options.env ?? {}, 0)
  const surroundings: Surroundings = {
    system: new System(root, options),
    clock: options.clock ?? systemClock,
    log: (level: Level, message: string) => log.push(`${level}: ${message}`),
    random: () => 0,
    newId: randomUUID,
    version: '0.0.0',
    builtAt: options.builtAt ?? 0,
    orderReset: options.orderReset ?? (forgetsCard => orderReset(new Files(config.stateDir), forgetsCard)),
    reset: options.reset ?? (() => undefined),
    page: options.page,
  }
  const service = await startService(config, surroundings, { setting: options.setting, resource: options.add })
  t.teardown(() => service.close())
  return new TestService(root, log, service)
}
