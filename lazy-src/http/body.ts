import type { IncomingMessage } from 'node:http'
import { type JsonValue, parseJson } from '../json.ts'
import { MAX_BODY_BYTES } from '../limits.ts'
import { Problem } from '../problem.ts'

/** @throws {Problem} 415 unless the body is plain JSON of one of these media types, in UTF-8. */
export function requireMediaType(request: IncomingMessage, accepted: readonly string[]): void {
  const [type = '', ...parameters] = (request.headers['content-type'] ?? '').toLowerCase().split(';')
  const charset = parameters.map(parameter => parameter.trim()).find(parameter => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset)
  const isPlain = (request.headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity'
  if (accepted.includes(type.trim()) && isUtf8 && isPlain) return
  throw new Problem('unsupported-media-type', `Send the body as ${accepted.join(' or ')}, in UTF-8, not compressed.`, {
    headers: ['Accept-Patch', accepted.join(', ')],
  })
}

/**
 * Reads a body of JSON. `proceed` is called when it is wanted: a client that waits for 100 Continue sends it then.
 * @throws {Problem} 413 as soon as it is known to be too large, 400 where it is not JSON or was cut short.
 */
export async function readJson(request: IncomingMessage, proceed: () => void): Promise<JsonValue> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge()
  proceed()
  const bytes = await readAll(request)
  try {
    return parseJson(bytes)
  } catch (error) {
    if (error instanceof SyntaxError) throw new Problem('bad-request', `The body cannot be read: ${error.message}.`)
    throw error
  }
}

function readAll(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_BODY_BYTES) chunks.push(chunk)
      else {
        // What is still to come is read and dropped, until the time for the request is over: the client gets its answer.
        chunks.length = 0
        reject(tooLarge())
      }
    })
    request.on('end', () => resolve(Buffer.concat(chunks)))
    request.on('error', () => reject(new Problem('bad-request', 'The body was cut short.')))
  })
}

function tooLarge(): Problem {
  return new Problem('body-too-large', `A body has at most ${MAX_BODY_BYTES} bytes.`)
}
