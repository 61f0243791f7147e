import type { JsonObject } from '../../src/json.ts'
import { DEADLINE_MS } from './eventually.ts'
import { openStream, type TestStream } from './stream.ts'

export class NoAnswer extends Error {}

/** A client of a service, wherever that runs. Uses the API key by default. */
export abstract class Api {
  /** Scheme, host and port. */
  abstract readonly url: string
  abstract readonly key: string

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** Uses the API key, unless there is another Authorization header. Rejects with the request if there is no answer in time. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { Authorization: `Bearer ${this.key}`, ...init.headers }
    const timeout = AbortSignal.timeout(DEADLINE_MS)
    try {
      return await fetch(`${this.url}/api/v1${path}`, { signal: timeout, ...init, headers })
    } catch (error) {
      if (error !== timeout.reason) throw error
      const request = `${init.method ?? 'GET'} ${path} ${init.body ?? ''}`
      throw new NoAnswer(`no answer within ${DEADLINE_MS} ms: ${request}`)
    }
  }

  /** Uses another credential. */
  fetchAs(token: string, path = '/system', init: RequestInit = {}): Promise<Response> {
    return this.fetch(path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } })
  }

  /** Sends a string as it is, and anything else as JSON. */
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
    const { hostname } = new URL(this.url)
    return openStream(this.port, path, { Authorization: `Bearer ${this.key}`, ...headers }, hostname)
  }
}

/** The id in the ETag of a response. */
export function idOf(response: Response): string {
  return /^"([^"]+)"$/.exec(response.headers.get('etag') ?? '')?.[1] ?? ''
}
