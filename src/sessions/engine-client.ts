/** The engine's side of the engines' socket. */
import { request } from 'node:http'
import { connect } from 'node:net'
import type { Device, EndReason } from '../../hal/engine.ts'
import { type JsonObject, parseJson } from '../json.ts'

/** A session as the service describes it. */
export interface SessionLine {
  /** Present in the first line. */
  readonly id?: string
  readonly state: 'pending' | 'active' | 'denied' | 'ended'
  /** When that state began, in RFC 3339. */
  readonly since?: string
  readonly reason?: EndReason
}

/** The service answered with a problem instead of a session. The message is the detail of the problem. */
export class SessionRefused extends Error {
  /** Whether the same request may be accepted later. */
  readonly isPassing: boolean

  constructor(detail: string, status = 0) {
    super(detail)
    this.isPassing = status >= 500 || status === 429
  }
}

/** A session that continues after the connection was lost. */
export interface GoingOn {
  readonly state: 'active'
  readonly id: string | undefined
  readonly since: string | undefined
}

export interface EngineConnection {
  /** Ends when the service has nothing more to send, or the connection is lost. */
  readonly lines: AsyncIterable<SessionLine>
  /** Tells the service that the device is gone. */
  close(): void
}

/** Maximum number of characters in a line, and in a problem. */
const MAX_LINE = 4_096

/**
 * Asks for a session. After a moderator has ended it, the connection stays open until `close`, which reports that the device
 * is disconnected.
 * @throws {SessionRefused} if the request is refused; the error of the socket if the service is not listening.
 */
export function openSession(path: string, ask: Device & (GoingOn | object)): Promise<EngineConnection> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    const body = JSON.stringify(ask)
    const headers = { Host: 'engine', 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
    request({ method: 'POST', path: '/sessions', headers, createConnection: () => socket })
      .on('error', reject)
      .on('response', answer => {
        const chunks = answer.setEncoding('utf8')
        if (answer.statusCode === 200) resolve({ lines: linesOf(chunks), close: () => socket.destroy() })
        else refusalIn(chunks).then(detail => reject(new SessionRefused(detail, answer.statusCode)), reject)
      })
      .end(body)
  })
}

/** Yields the lines. A lost connection ends them, and an unfinished line is dropped. */
async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<SessionLine> {
  let text = ''
  try {
    for await (const chunk of chunks) {
      text += chunk
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        yield JSON.parse(text.slice(0, end))
        text = text.slice(end + 1)
      }
      if (text.length > MAX_LINE) throw new SyntaxError()
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw new SessionRefused('the response of the service is not a session')
    // The connection was lost, as after a crash of the service.
  }
}

/** Returns the detail of a problem. */
async function refusalIn(chunks: AsyncIterable<string>): Promise<string> {
  let text = ''
  for await (const chunk of chunks) text = (text + chunk).slice(0, MAX_LINE)
  try {
    const { detail } = parseJson(Buffer.from(text)) as JsonObject
    if (typeof detail === 'string') return detail
  } catch {
    // Not an object: another program answered.
  }
  return 'the service refused the session'
}
