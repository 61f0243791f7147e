import type { Json } from './json.ts'
import * as texts from './texts.ts'
import { setDeviceClock } from './time.ts'

/** An error in one part of a request body. */
export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

/** Why the device refuses a token that it may accept later by itself: after a restart, its clock is wrong for a while. */
export const FOR_NOW: readonly string[] = ['clock not set', 'not yet valid']

/** The device refused a request (RFC 9457). */
export class Refusal extends Error {
  readonly status: number
  readonly errors: readonly FieldError[]
  /** The last part of the problem type, such as `conflict`; empty without a type. */
  readonly type: string
  /** The id of the session that is in the way. */
  readonly session: string | undefined
  /** Whether the device may accept the same credential later. */
  readonly isForNow: boolean

  /** @param challenge The `WWW-Authenticate` of the answer. */
  constructor(status: number, { detail, type = '', errors = [], session }: ProblemBody = {}, challenge = '') {
    super(detail ?? texts.status(status))
    this.status = status
    this.type = typeOf(type)
    this.errors = errors
    this.session = session
    this.isForNow = FOR_NOW.some(reason => challenge.includes(`error_description="${reason}"`))
  }
}

/** The device did not answer. */
export class Unreachable extends Error {}

/** Reports whether the device refused a credential that it may accept later by itself. */
export function isRefusedForNow(error: unknown): error is Refusal {
  return error instanceof Refusal && error.isForNow
}

/** Statuses of a device that is too busy, or of a proxy that does not reach it. */
const PASSING = [429, 502, 503, 504]

/** Reports whether the same request may succeed later. It says nothing about whether the device has received this one. */
export function isPassing(error: unknown): boolean {
  if (error instanceof Refusal) return error.isForNow || PASSING.includes(error.status)
  return error instanceof Unreachable
}

export interface Send {
  readonly body?: Json
  /** Sent instead of `body`. */
  readonly file?: Blob
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Milliseconds to wait for an answer: longer than any change of settings takes. */
const ANSWER_MS = 60_000

/** A credential that a header can carry. With any other, `fetch` fails as if the device did not answer. */
const CREDENTIAL = /^[!-~]{1,4096}$/

/** Sends requests with a credential. Addresses are relative to the page. */
export class Client {
  readonly credential: string
  /** Called when a request gets no answer, unless its sender has given it up, or it has a file. */
  unanswered: () => void = () => undefined
  /** Once this is aborted, nothing is sent, and no request ends: somebody else would see what its sender does next. */
  closed: AbortSignal | undefined

  constructor(credential: string) {
    this.credential = credential
  }

  /** @throws {Refusal} or {Unreachable} */
  async send(method: string, path: string, { body, file, headers, signal }: Send = {}): Promise<Response> {
    if (!CREDENTIAL.test(this.credential)) throw new Refusal(401, { detail: texts.notACredential })
    let response: Response
    try {
      if (this.closed?.aborted) await never()
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
      const isGivenUp = error instanceof DOMException && error.name === 'AbortError'
      // The same error tells that the file is gone, or that the device refused it before it had read it.
      if (!isGivenUp && !file) this.unanswered()
      throw new Unreachable(texts.noAnswer, { cause: error })
    } finally {
      if (this.closed?.aborted) await never()
    }
    setDeviceClock(response.headers.get('Date'))
    if (!response.ok) throw refusalOf(response, await response.text().catch(() => ''))
    return response
  }

  async read<T>(path: string, send?: Send): Promise<T> {
    return jsonOf<T>(await this.send('GET', path, send))
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined)
}

/** Returns the JSON of an answer. @throws {Unreachable} if the answer was cut off. */
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

/** Returns the refusal in an answer's text, which may not be a problem if a proxy sent it. */
function refusalOf({ status, headers }: Response, text: string): Refusal {
  const challenge = headers.get('WWW-Authenticate') ?? ''
  try {
    return new Refusal(status, JSON.parse(text) as ProblemBody, challenge)
  } catch {
    return new Refusal(status, {}, challenge)
  }
}

/** `urn:receiverd:problem:conflict` → `conflict`. */
export function typeOf(type: string): string {
  return type.slice(type.lastIndexOf(':') + 1)
}

/** Returns the message to show for an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
