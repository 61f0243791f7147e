import { type Client, jsonOf, Refusal, Unreachable } from '../client.ts'
import { idOf } from '../device.ts'
import * as texts from '../texts.ts'

/** Milliseconds until the next attempt. */
const RETRY_MS = 3_000
/** Attempts in a row that bring nothing, while the device answers: longer than it takes a broken connection for alive. */
const MAX_VAIN = 30
/**
 * What the device says while it does that; for what a browser has sent a second time by itself, after a connection broke;
 * and what a proxy says for a device that is not there.
 */
const PASSING = [409, 412, 502, 503, 504]

/** How much of a bundle that is being sent the device has. */
export interface Part {
  readonly bytes: number
  readonly receivedBytes: number
  readonly etag: string
}

/**
 * Sends a bundle to the device, whose events say how far it is. After a break it goes on where the device has stopped, for
 * as long as it takes: a connection that is cut without a word fails when the network is back, for the device has closed it.
 * @throws {Refusal} {Error} if it is another file, or cannot be sent; or if the signal is aborted.
 */
export async function upload(client: Client, file: File, signal: AbortSignal): Promise<void> {
  let last: unknown
  for (let from = 0, vain = 0; vain < MAX_VAIN; vain++) {
    try {
      const part = await partOf(client)
      signal.throwIfAborted()
      // Somebody else sends another one, or has begun to.
      if (part && part.bytes !== file.size) throw last ?? new Error(texts.otherFile)
      // The last answer was lost: it is being checked, or was taken.
      if (part?.receivedBytes === file.size) return
      // It was refused, or somebody else has removed it, or the device does something else.
      if (!part && (from > 0 || last instanceof Refusal)) throw last
      const start = part?.receivedBytes ?? 0
      if (start > from) vain = 0
      from = start
      const headers = {
        'Content-Type': 'application/vnd.rauc.bundle',
        ...(part
          ? { 'If-Match': part.etag, 'Content-Range': `bytes ${from}-${file.size - 1}/${file.size}` }
          : { 'If-None-Match': '*' }),
      }
      await client.send('PUT', '/update/bundle', { file: file.slice(from), headers, signal })
      return
    } catch (error) {
      signal.throwIfAborted()
      const isPassing = error instanceof Unreachable || (error instanceof Refusal && PASSING.includes(error.status))
      if (!isPassing || error === last) throw error
      last = error
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      signal.throwIfAborted()
    }
  }
  throw new Error(texts.uploadBroken)
}

/** How much of a bundle the device has, if any; all of it once it is whole. @throws {Refusal} or {Unreachable} */
export async function partOf(client: Client): Promise<Part | undefined> {
  try {
    const response = await client.send('GET', '/update/bundle')
    const { bytes, receivedBytes } = await jsonOf<Omit<Part, 'etag'>>(response)
    return { bytes, receivedBytes, etag: `"${idOf(response)}"` }
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return undefined
    throw error
  }
}
