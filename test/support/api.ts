import type { JsonObject } from '../../src/json.ts'
import { DEADLINE_MS } from './eventually.ts'
import { openStream, type TestStream } from './stream.ts'

/** A client of a service, wherever that runs: by default it has the API key. */
export abstract class Api {
  /** Scheme, host and port. */
  abstract readonly url: string
  abstract readonly key: string

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** Asks with the API key, unless the headers say otherwise. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { Authorization: `Bearer ${this.key}`, ...init.headers }
    return fetch(`${this.url}/api/v1${path}`, { signal: AbortSignal.timeout(DEADLINE_MS), ...init, headers })
  }

  /** Asks with any other credential. */
  fetchAs(token: string, path = '/system', init: RequestInit = {}): Promise<Response> {
    return this.fetch(path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } })
  }

  /** A text is sent as it is. */
  patch(patch: unknown, headers: Record<string, string> = {}, query = ''): Promise<Response> {
    const body = typeof patch === 'string' ? patch : JSON.stringify(patch)
    return this.fetch(`/system${query}`, {
      method: 'PATCH',
      body,
      headers: { 'Content-Type': 'application/json', ...headers },
    })
  }

  async system(): Promise<{ readonly value: JsonObject; readonly etag: string; readonly id: string }> {
    const response = await this.fetch('/system')
    const etag = response.headers.get('etag') ?? ''
    return { value: (await response.json()) as JsonObject, etag, id: idOf(response) }
  }

  stream(path = '/events', headers: Record<string, string> = {}): Promise<TestStream> {
    return openStream(this.port, path, { Authorization: `Bearer ${this.key}`, ...headers })
  }
}

/** The id in an answer's ETag. */
export function idOf(response: Response): string {
  return /^"([^"]+)"$/.exec(response.headers.get('etag') ?? '')?.[1] ?? ''
}
