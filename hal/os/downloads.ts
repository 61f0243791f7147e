import { connect, type Socket } from 'node:net'
import { HalError } from '../errors.ts'

const SOCKET = '/run/receiverd-download.sock'
/**
 * The first line of a request and of an answer. Its number goes up with every change of the protocol: during a package upgrade,
 * or after a mistake, the unit may be from another version than this service.
 */
const PROTOCOL = 'receiverd-download 1'
/** Milliseconds without a byte before giving up. The unit's own limits are lower, so by then it is stuck, or fails to start. */
const IDLE_MS = 120_000
/** Limit on the heads of all answers together, redirects included, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024
/** Limit on a manifest in bytes. The manifest is part of the signature, and RAUC accepts no larger signature. */
const MAX_MANIFEST_BYTES = 64 * 1024
/** A strong entity tag (RFC 9110 §8.8.3) that is safe to send back. */
const STRONG_ETAG = /^"[!#-~]{1,256}"$/

/** The cause of a failure, by what the unit reports: an exit status of curl(1), or a word. */
const REASONS: Readonly<Record<string, string>> = {
  1: 'the address leads to something other than https:// or http://',
  3: 'the address is not understood',
  6: 'the name of the server is not known',
  7: 'the server cannot be reached, or has an address that is not allowed',
  22: 'the server refuses it',
  busy: 'the server cannot send it at the moment',
  28: 'the server is too slow',
  35: 'no TLS connection can be made',
  47: 'the server redirects too often',
  56: 'the connection broke off',
  60: 'the certificate of the server is not trusted',
  63: 'it is too large',
  range: 'the server does not send a part of a file (Range)',
  damaged: 'it is not a bundle',
  signature: 'its signature is not valid for this device',
  length: 'the server does not say how large it is',
  changed: 'it has changed meanwhile',
  none: 'receiverd-update is not installed',
  unit: 'receiverd-download@.service did not answer: it is busy, or of another version than receiverd',
  version: 'receiverd-update is of another version than receiverd',
}
const TRANSIENT: readonly string[] = ['6', '7', '28', '56', 'busy', 'unit']
/** Failures after the server was reached. */
const OF_THE_SERVER: readonly string[] = ['52', '56', 'busy']
/** Statuses of temporary failures (RFC 9110 §15.5.9, §15.6; RFC 8470 §5.2; RFC 6585 §4). */
const BUSY = /^(408|425|429|500|502|503|504)$/

/** A failed download. The message is a clause that quotes nothing from the answer. */
export class DownloadError extends HalError {
  /** Whether another try may succeed, such as after a broken connection or a slow server. */
  readonly isTransient: boolean
  /** Whether the failure is transient and a server was reached at the address. */
  readonly isServerBusy: boolean

  /** @param reason An exit status of curl(1), or a word from the unit. */
  constructor(reason: string) {
    super('COMMAND_FAILED', REASONS[reason] ?? 'the connection failed')
    this.isTransient = !(reason in REASONS) || TRANSIENT.includes(reason)
    this.isServerBusy = OF_THE_SERVER.includes(reason)
  }
}

export interface BundleRequest {
  readonly url: string
  /** Limit on the size of the bundle in bytes. */
  readonly max: number
  /** Resumes the file that has this entity tag, at this offset. */
  readonly from?: { readonly offset: number; readonly etag: string }
  /** Cancels the request while it waits for the answer. */
  readonly signal?: AbortSignal
}

/** A bundle whose download has started. */
export interface BundleAnswer {
  /** The offset of the first byte of `body`: 0, or where the download resumes. */
  readonly offset: number
  /** Size of the whole bundle in bytes. */
  readonly bytes: number
  /** The ETag for `from`; undefined if the server sent no strong one, so that the download cannot be resumed. */
  readonly etag: string | undefined
  /** The bytes from `offset` on, read no faster than they are consumed. They may end too early. */
  readonly body: AsyncIterable<Buffer>
  close(): void
}

export interface ManifestRequest {
  readonly url: string
  /**
   * The file of certificates that signatures are checked against, and the purpose that a signer's must have (RAUC's
   * `check-purpose`).
   */
  readonly keyring: string
  readonly purpose: string
  /**
   * Whether a signer's certificate must have been valid at the time of signing, rather than now (RAUC's
   * `use-bundle-signing-time`).
   */
  readonly isAsOfSigning: boolean
}

/**
 * Downloads through units that have network access, which this service lacks. systemd starts one for each connection to their
 * socket.
 */
export class Downloads {
  readonly #path: string
  readonly #idleMs: number

  constructor(path = SOCKET, idleMs = IDLE_MS) {
    this.#path = path
    this.#idleMs = idleMs
  }

  /** Downloads a bundle, or the rest of one. @throws {DownloadError} */
  async bundle({ url, max, from, signal }: BundleRequest): Promise<BundleAnswer> {
    const { offset = 0, etag = '' } = from ?? {}
    return this.#ask(['bundle', url, `${max}`, `${offset}`, etag], signal, async (socket, chunks, first) => {
      const { head, rest } = await readHead(chunks, first)
      const answer = { ...understand(head, offset), body: following(rest, chunks) }
      if (answer.bytes > max) throw new DownloadError('63')
      return { ...answer, close: () => void socket.destroy() }
    })
  }

  /** Downloads only the manifest of a bundle, and checks its signature. @throws {DownloadError} */
  async manifest({ url, keyring, purpose, isAsOfSigning }: ManifestRequest): Promise<string> {
    return this.#ask(
      ['manifest', url, keyring, purpose, isAsOfSigning ? 'signed' : 'now'],
      undefined,
      async (socket, chunks, first) => {
        let bytes = first
        for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
          bytes = Buffer.concat([bytes, next.value])
          if (bytes.length > MAX_MANIFEST_BYTES) throw new DownloadError('damaged')
        }
        socket.destroy()
        const text = bytes.toString()
        const [, manifest] = /^manifest\n([\s\S]*)/.exec(text) ?? []
        if (manifest === undefined) throw new DownloadError(/^error (\w+)\n$/.exec(text)?.[1] ?? '')
        return manifest
      },
    )
  }

  /** @param read Reads the bytes after the greeting, beginning with `first`. It may leave the socket open or close it. */
  async #ask<T>(
    lines: readonly string[],
    signal: AbortSignal | undefined,
    read: (socket: Socket, chunks: AsyncIterator<Buffer>, first: Buffer) => Promise<T>,
  ): Promise<T> {
    const socket = connect({ path: this.#path, ...(signal && { signal }) })
    try {
      await new Promise((resolve, reject) => {
        socket.once('connect', resolve).once('error', () => reject(new DownloadError(signal?.aborted ? '56' : 'none')))
      })
      // The reader notices a later error as an early end.
      socket.on('error', () => undefined)
      socket.setTimeout(this.#idleMs, () => socket.destroy(new DownloadError('28')))
      // No `end`: the unit would think that the client has left.
      socket.write(`${[PROTOCOL, ...lines].join('\n')}\n`)
      const chunks: AsyncIterator<Buffer> = socket.iterator({ destroyOnReturn: false })
      return await read(socket, chunks, await readGreeting(chunks))
    } catch (error) {
      socket.destroy()
      throw error instanceof HalError ? error : new DownloadError('56')
    }
  }
}

/** Reads the greeting, and returns the bytes that arrived after it. @throws {DownloadError} if it is not ours, or never comes. */
async function readGreeting(chunks: AsyncIterator<Buffer>): Promise<Buffer> {
  const greeting = Buffer.from(`${PROTOCOL}\n`)
  let pending: Buffer = Buffer.alloc(0)
  while (pending.length < greeting.length && !pending.includes('\n')) {
    // A unit of another version exits without reading the rest, which resets the connection.
    const next = await chunks.next().catch(() => undefined)
    if (!next || next.done) throw new DownloadError('unit')
    pending = Buffer.concat([pending, next.value])
  }
  if (!pending.subarray(0, greeting.length).equals(greeting)) throw new DownloadError('version')
  return pending.subarray(greeting.length)
}

/** Reads the head of the final answer, after any redirects, and the first bytes of its body. @throws {DownloadError} */
async function readHead(
  chunks: AsyncIterator<Buffer>,
  first: Buffer,
): Promise<{ readonly head: string; readonly rest: Buffer }> {
  let pending = first
  for (let total = first.length; ; ) {
    for (let end = endOfHead(pending); end > 0; end = endOfHead(pending)) {
      const head = pending.toString('latin1', 0, end)
      pending = pending.subarray(end)
      // An answer in the 300s that leads nowhere, such as 304, is final.
      if (!/^HTTP\/[\d.]+ (1|3.*\nlocation:[ \t]*\S)/is.test(head)) return { head, rest: pending }
    }
    const failure = /^error (\w+)\n/.exec(pending.toString('latin1', 0, 32))
    if (failure) throw new DownloadError(failure[1] ?? '')
    const next = await chunks.next()
    if (!next.done) pending = Buffer.concat([pending, next.value])
    if (next.done) throw new DownloadError('56')
    total += next.value.length
    // The last chunk may be mostly body.
    if (total - next.value.length > MAX_HEAD_BYTES) throw new DownloadError('22')
  }
}

function endOfHead(bytes: Buffer): number {
  const at = bytes.indexOf('\r\n\r\n')
  return at < 0 ? 0 : at + 4
}

/** Parses the head of the answer. @throws {DownloadError} if the answer is unusable. */
function understand(head: string, offset: number): Omit<BundleAnswer, 'body' | 'close'> {
  const value = (name: string) => new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*\\r$`, 'im').exec(head)?.[1] ?? ''
  const etag = STRONG_ETAG.test(value('etag')) ? value('etag') : undefined
  if (/^\S+ 206/.test(head)) {
    const [, first, last, all] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/i.exec(value('content-range')) ?? []
    if (Number(first) !== offset || Number(last) !== Number(all) - 1) throw new DownloadError('range')
    return { offset, bytes: Number(all), etag }
  }
  const [, status = ''] = /^\S+ (\d{3})/.exec(head) ?? []
  if (status !== '200') throw new DownloadError(BUSY.test(status) ? 'busy' : '22')
  if (!/^\d{1,15}$/.test(value('content-length'))) throw new DownloadError('length')
  return { offset: 0, bytes: Number(value('content-length')), etag }
}

async function* following(rest: Buffer, chunks: AsyncIterator<Buffer>): AsyncIterable<Buffer> {
  if (rest.length > 0) yield rest
  for (;;) {
    // However the stream ends, the number of bytes shows whether it ended too early.
    const next = await chunks.next().catch(() => undefined)
    if (!next || next.done) return
    yield next.value
  }
}
