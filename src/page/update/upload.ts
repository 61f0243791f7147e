import { type Client, isPassing, isRefusedForNow, jsonOf, Refusal } from '../client.ts'
import { idOf } from '../device.ts'
import * as texts from '../texts.ts'

/** Milliseconds until the next attempt. */
const RETRY_MS = 3_000
/** Fruitless attempts in a row before the upload fails. They outlast the time in which the device notices a dead connection. */
const MAX_VAIN = 30
/**
 * Statuses that are worth a retry, besides those of any request: 409 while the device is busy with the broken upload, and 412
 * for a request that the browser repeated by itself after a broken connection.
 */
const PASSING = [409, 412]

/** The part of a bundle that the device has received. */
export interface Part {
  readonly bytes: number
  readonly receivedBytes: number
  readonly etag: string
}

/**
 * Sends a bundle to the device, whose events report the progress. After a break, it resumes where the device stopped. There is
 * no timeout: a connection that was cut silently fails when the network is back, because the device has closed it.
 * @throws {Refusal} {Error} if the device has part of another file, the upload fails, or the signal is aborted.
 */
export async function upload(client: Client, file: File, signal: AbortSignal): Promise<void> {
  let last: unknown
  for (let from = 0, vain = 0; vain < MAX_VAIN; vain++) {
    try {
      const part = await partOf(client)
      signal.throwIfAborted()
      // Somebody else is sending another bundle, or has begun to.
      if (part && part.bytes !== file.size) throw last ?? new Error(texts.otherFile)
      // The last answer was lost: the bundle is being checked, or was accepted.
      if (part?.receivedBytes === file.size) return
      // The bundle was refused, somebody else removed it, or the device is busy with another step.
      if (!part && (from > 0 || last instanceof Refusal)) throw last ?? new Error(texts.uploadBroken)
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
      const isFinal = !isPassing(error) && !(error instanceof Refusal && PASSING.includes(error.status))
      if (isFinal || error === last) throw error
      // That says nothing about the bundle, and may take any time.
      const isForNow = isRefusedForNow(error)
      last = isForNow ? undefined : error
      if (isForNow) vain = 0
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      signal.throwIfAborted()
    }
  }
  throw new Error(texts.uploadBroken)
}

/** Returns the part of a bundle that the device has, maybe all of it; undefined if none. @throws {Refusal} or {Unreachable} */
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
