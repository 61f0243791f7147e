import { type Client, jsonOf, Refusal, refusalOf, Unreachable } from '../client.ts'
import { idOf } from '../device.ts'
import * as texts from '../texts.ts'

/** Milliseconds without a byte after which a connection counts as broken; then, for the answer, for which the device reads it all. */
const STALL_MS = 30_000
const ANSWER_MS = 300_000
/** Milliseconds until the next attempt. */
const RETRY_MS = 3_000
/** Attempts without a byte after which it is given up, while the device answers everything else: longer than it waits itself. */
const MAX_VAIN = 30
/** What a proxy says for a device that is not there, and the device for a connection that it still takes for alive. */
const PASSING = [409, 502, 503, 504]

/** What the device has of an upload. */
export interface Part {
  readonly bytes: number
  readonly receivedBytes: number
  readonly etag: string
}

/** What is being sent. */
export interface Sending {
  readonly file: File
  readonly signal: AbortSignal
  readonly stop: () => void
  /** Bytes that have left. */
  sent: number
  /** Called when that has changed. */
  readonly changed: () => void
}

/**
 * Sends a bundle to the device. After a break it goes on where the device has stopped, for as long as it takes.
 * @throws {Refusal} {Error} if it is another file, or cannot be read any more; or if the signal is aborted.
 */
export async function upload(client: Client, sending: Sending): Promise<void> {
  const { file, signal, changed } = sending
  let last: unknown
  for (let vain = 0; vain < MAX_VAIN; vain++) {
    try {
      const part = await partOf(client)
      signal.throwIfAborted()
      if (part && part.bytes !== file.size) throw new Error(texts.otherFile)
      // The last answer was lost: it is being checked, or was taken.
      if (part?.receivedBytes === file.size) return
      // It was refused, or somebody else has removed it.
      if (!part && sending.sent > 0) throw last
      const from = part?.receivedBytes ?? 0
      const moved = (bytes: number) => {
        if (from + bytes > sending.sent) vain = 0
        sending.sent = from + bytes
        changed()
      }
      return await put(client, sending, part, moved)
    } catch (error) {
      signal.throwIfAborted()
      const isPassing = error instanceof Unreachable || (error instanceof Refusal && PASSING.includes(error.status))
      // Somebody else is at it, or the device is busy.
      const isFirst = sending.sent === 0 && error instanceof Refusal && error.status === 409
      if (!isPassing || isFirst || error === last) throw error
      last = error
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      signal.throwIfAborted()
    }
  }
  throw new Error(texts.uploadBroken)
}

/** What the device has of an upload, if anything; all of it, if that is whole. @throws {Refusal} or {Unreachable} */
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

/** As `fetch` cannot say how far it is. */
function put(
  client: Client,
  { file, signal }: Sending,
  part: Part | undefined,
  moved: (bytes: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    let silence = 0
    const listen = (ms: number) => {
      clearTimeout(silence)
      silence = setTimeout(abort, ms)
    }
    request.open('PUT', 'api/v1/update/bundle')
    request.setRequestHeader('Authorization', `Bearer ${client.credential}`)
    request.setRequestHeader('Content-Type', 'application/vnd.rauc.bundle')
    if (part) {
      request.setRequestHeader('If-Match', part.etag)
      request.setRequestHeader('Content-Range', `bytes ${part.receivedBytes}-${file.size - 1}/${file.size}`)
    }
    request.upload.addEventListener('progress', ({ loaded }) => {
      listen(STALL_MS)
      moved(loaded)
    })
    request.upload.addEventListener('load', () => listen(ANSWER_MS))
    request.addEventListener('loadend', () => {
      clearTimeout(silence)
      signal.removeEventListener('abort', abort)
      if (request.status === 0) reject(new Unreachable(texts.noAnswer))
      else if (request.status < 300) resolve()
      else reject(refusalOf(request.status, request.responseText))
    })
    signal.addEventListener('abort', abort)
    listen(STALL_MS)
    request.send(part ? file.slice(part.receivedBytes) : file)
  })
}
