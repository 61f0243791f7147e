import { join } from 'node:path'
import type { Test } from 'tap'
import type { Device } from '../../hal/engine.ts'
import { type EngineConnection, openSession, type SessionLine } from '../../src/sessions/engine-client.ts'
import type { Session } from '../../src/sessions/session.ts'
import { temporaryFolder } from './folder.ts'
import { type ServiceOptions, startTestService, type TestService } from './service.ts'

export const PIXEL: Device = {
  protocol: 'miracast',
  name: 'Pixel 9',
  model: 'Pixel 9',
  deviceId: '02:00:00:00:00:09',
  address: '192.0.2.9',
}

/** A device at its engine: each line that the service sends, and the end of the connection. */
export class TestEngine {
  readonly close: () => void
  readonly #lines: AsyncIterator<SessionLine>

  constructor(link: EngineConnection) {
    this.close = link.close
    this.#lines = link.lines[Symbol.asyncIterator]()
  }

  /** The next line; undefined when the service has ended its side. */
  async line(): Promise<SessionLine | undefined> {
    const { value, done } = await this.#lines.next()
    return done ? undefined : value
  }
}

/** A service with a socket for engines, where devices must be let in. */
export class ModeratedService {
  readonly service: TestService
  readonly path: string

  constructor(service: TestService, path: string) {
    this.service = service
    this.path = path
  }

  /** A device that asks to mirror; it leaves when the test is over. */
  async ask(t: Test, ask: object = {}): Promise<TestEngine> {
    const link = await openSession(this.path, { ...PIXEL, ...ask })
    t.teardown(link.close)
    return new TestEngine(link)
  }

  async sessions(): Promise<readonly Session[]> {
    const answer = await this.service.fetch('/sessions')
    return ((await answer.json()) as { sessions: Session[] }).sessions
  }

  admit(id: string | undefined, query = '', token = this.service.key): Promise<Response> {
    return this.service.fetchAs(token, `/sessions/${id}/admit${query}`, { method: 'POST' })
  }

  end(id: string | undefined, token = this.service.key): Promise<Response> {
    return this.service.fetchAs(token, `/sessions/${id}`, { method: 'DELETE' })
  }
}

export async function startModerated(t: Test, options: ServiceOptions = {}): Promise<ModeratedService> {
  const path = join(temporaryFolder(t), 'engines')
  const service = await startTestService(t, { ...options, env: { ...options.env, RECEIVERD_ENGINES: path } })
  const answer = await service.patch({ moderation: { approval: 'moderator' } })
  t.equal(answer.status, 200)
  return new ModeratedService(service, path)
}
