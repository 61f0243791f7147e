import type { Json } from './json.ts'
import * as texts from './texts.ts'

/** A refused part of a body. */
export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

/** The device refused a request (RFC 9457). */
export class Refusal extends Error {
  readonly status: number
  readonly errors: readonly FieldError[]
  /** The end of its type, such as `conflict`; empty if it has none. */
  readonly type: string
  /** The session that is in the way. */
  readonly session: string | undefined

  constructor(status: number, { detail, type = '', errors = [], session }: ProblemBody = {}) {
    super(detail ?? texts.status(status))
    this.status = status
    this.type = typeOf(type)
    this.errors = errors
    this.session = session
  }
}

/** The device did not answer. */
export class Unreachable extends Error {}

export interface Send {
  readonly body?: Json
  /** Instead of a body. */
  readonly file?: Blob
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Milliseconds for an answer: longer than any change of settings takes. */
const ANSWER_MS = 60_000

/** A credential that fits into a header. On anything else `fetch` fails as if the device did not answer. */
const CREDENTIAL = /^[!-~]{1,4096}$/

/** Requests with a credential, below the path of the page. */
export class Client {
  readonly credential: string

  constructor(credential: string) {
    this.credential = credential
  }

  /** @throws {Refusal} or {Unreachable} */
  async send(method: string, path: string, { body, file, headers, signal }: Send = {}): Promise<Response> {
    if (!CREDENTIAL.test(this.credential)) throw new Refusal(401, { detail: texts.notACredential })
    let response: Response
    try {
      response = await fetch(`api/v1${path}`, {
        method,
        headers: {
          Authorization: `Bearer ${this.credential}`,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        cache: 'no-store',
        credentials: 'omit',
        signal: signal ?? AbortSignal.timeout(ANSWER_MS),
        body: file ?? (body === undefined ? null : JSON.stringify(body)),
      })
    } catch (error) {
      throw new Unreachable(texts.noAnswer, { cause: error })
    }
    if (!response.ok) throw refusalOf(response.status, await response.text().catch(() => ''))
    return response
  }

  async read<T>(path: string, send?: Send): Promise<T> {
    return jsonOf<T>(await this.send('GET', path, send))
  }
}

/** The JSON of an answer. @throws {Unreachable} if it was cut off. */
export async function jsonOf<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T
  } catch (error) {
    throw new Unreachable(texts.noAnswer, { cause: error })
  }
}

interface ProblemBody {
  readonly type?: string
  readonly detail?: string
  readonly errors?: readonly FieldError[]
  readonly session?: string
}

/** The refusal in the text of an answer. A proxy may answer with something other than a problem. */
export function refusalOf(status: number, text: string): Refusal {
  try {
    return new Refusal(status, JSON.parse(text) as ProblemBody)
  } catch {
    return new Refusal(status)
  }
}

/** `urn:receiverd:problem:conflict` → `conflict`. */
export function typeOf(type: string): string {
  return type.slice(type.lastIndexOf(':') + 1)
}

/** The message for an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
