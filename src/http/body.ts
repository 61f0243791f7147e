import type { IncomingMessage, ServerResponse } from 'node:http'
import { type JsonValue, parseJson } from '../json.ts'
import { MAX_BODY_BYTES } from '../limits.ts'
import { Problem } from '../problem.ts'
import { illFormedStrings, refusal, schemaErrors } from '../validate.ts'
import type { BodyRules } from './route.ts'

/** Reports whether a request has a body: without either header it has none (RFC 9112 §6.3). */
export function hasBody({ headers }: IncomingMessage): boolean {
  return Number(headers['content-length'] ?? 0) !== 0 || headers['transfer-encoding'] !== undefined
}

/** Reports whether a request has been received completely. */
export function isRead(message: IncomingMessage): boolean {
  return message.complete || !hasBody(message)
}

/**
 * Reports whether so much of a request may still be in transit that it should not be read to the end just to answer. A client
 * that sends 1 GiB with a wrong token must not keep the device busy.
 */
export function isLeftUnread(message: IncomingMessage): boolean {
  if (isRead(message)) return false
  const { 'content-length': length, 'transfer-encoding': coding } = message.headers
  return coding !== undefined || Number(length) > MAX_BODY_BYTES
}

/** Reports whether a client waits for 100 Continue. HTTP/1.0 has no interim responses (RFC 9110 §10.1.1, §15.2). */
export function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion !== '1.0'
}

/** @throws {Problem} 411 without Content-Length, 400 for an empty body, 413 for one that is too long. */
export function requireLength({ headers }: IncomingMessage, maxBytes: number): void {
  const { 'content-length': length } = headers
  if (length === undefined) throw new Problem('length-required', 'Send Content-Length: the size of the body in bytes.')
  if (Number(length) === 0) throw new Problem('bad-request', 'The body is empty.')
  if (Number(length) > maxBytes) throw tooLarge(maxBytes)
}

/**
 * @param how The end of the detail.
 * @throws {Problem} 415 unless the body has one of these media types, is uncompressed, and if it is text, is in UTF-8.
 */
export function requireMediaType(
  message: IncomingMessage,
  accepted: readonly string[],
  how = 'in UTF-8 and uncompressed',
): void {
  const [type = '', ...parameters] = (message.headers['content-type'] ?? '').toLowerCase().split(';')
  const charset = parameters.map(parameter => parameter.trim()).find(parameter => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset)
  const isPlain = (message.headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity'
  if (accepted.includes(type.trim()) && isUtf8 && isPlain) return
  throw new Problem('unsupported-media-type', `Send the body as ${accepted.join(' or ')}, ${how}.`, {
    // RFC 5789 §3.1 for PATCH, RFC 9110 §12.5.1 for the rest.
    headers: [message.method === 'PATCH' ? 'Accept-Patch' : 'Accept', accepted.join(', ')],
  })
}

/**
 * Reads a JSON body. Sends 100 Continue first if the client waits for it.
 * @throws {Problem} 413 as soon as the body is known to be too large, 400 if it is not JSON or is incomplete.
 */
export async function readJson(message: IncomingMessage, response: ServerResponse): Promise<JsonValue> {
  if (Number(message.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge(MAX_BODY_BYTES)
  if (expectsContinue(message)) response.writeContinue()
  const bytes = await readAll(message)
  try {
    return parseJson(bytes)
  } catch (error) {
    if (error instanceof SyntaxError)
      throw new Problem(
        'bad-request',
        bytes.length === 0 ? 'The body is empty.' : `The body is not valid: ${error.message}.`,
      )
    throw error
  }
}

/** @throws {Problem} 422 if a value does not match the route's schema, or cannot be written as UTF-8. */
export function requireValid(body: JsonValue, { schema, invalid = 'invalid-body' }: BodyRules): void {
  const illFormed = illFormedStrings(body)
  const errors = illFormed.length > 0 ? illFormed : schemaErrors(schema, body, '')
  if (errors.length > 0) throw refusal(invalid, errors)
}

function readAll(message: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The client may have disconnected while its credential was verified, in which case no further event is emitted.
    if (message.destroyed) return reject(cutShort())
    const chunks: Buffer[] = []
    let size = 0
    message.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_BODY_BYTES) chunks.push(chunk)
      else {
        chunks.length = 0
        reject(tooLarge(MAX_BODY_BYTES))
      }
    })
    message.on('end', () => resolve(Buffer.concat(chunks)))
    message.on('error', () => reject(cutShort()))
  })
}

function cutShort(): Problem {
  return new Problem('bad-request', 'The body was cut short.')
}

export function tooLarge(maxBytes: number): Problem {
  return new Problem('body-too-large', `A body must not exceed ${maxBytes} bytes.`)
}
