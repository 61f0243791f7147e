/** Header values that decide how a request is answered: ETags (RFC 9110 §8.8.3, §13.1), Prefer (RFC 7240), Accept. */

export interface EntityTag {
  readonly weak: boolean
  /** What stands between the quotes. */
  readonly tag: string
}

const ETAG_LIST = /^(W\/)?"([\x21\x23-\x7e]*)"\s*(?:,\s*|$)/

export function formatEtag(id: string): string {
  return `"${id}"`
}

/** The tags of `If-Match` or `If-None-Match`; undefined for anything else. */
export function parseEtags(header: string): '*' | readonly EntityTag[] | undefined {
  if (header.trim() === '*') return '*'
  const tags: EntityTag[] = []
  for (let rest = header.trim(); rest !== ''; ) {
    const match = ETAG_LIST.exec(rest)
    if (!match) return undefined
    tags.push({ weak: match[1] !== undefined, tag: match[2] ?? '' })
    rest = rest.slice(match[0].length)
  }
  return tags
}

/** `If-None-Match` against the present ETag: the weak comparison (RFC 9110 §13.1.2). */
export function matchesWeakly(header: string | undefined, id: string): boolean {
  const tags = header === undefined ? undefined : parseEtags(header)
  return tags === '*' || (tags?.some(({ tag }) => tag === id) ?? false)
}

/** `If-Match` against the present ETag: the strong comparison (RFC 9110 §13.1.1), so a weak tag never matches. */
export function matchesStrongly(header: string, id: string): boolean {
  const tags = parseEtags(header)
  return tags === '*' || (tags?.some(({ weak, tag }) => !weak && tag === id) ?? false)
}

/** Seconds of the first `wait` in `Prefer` (RFC 7240 §2, §4.3); undefined without one that makes sense. */
export function preferredWait(header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  for (const preference of header.split(',')) {
    const [name, value] = (preference.split(';', 1)[0] ?? '').split('=', 2)
    if (name?.trim().toLowerCase() !== 'wait') continue
    const seconds = value?.trim().replace(/^"(.*)"$/, '$1') ?? ''
    return /^\d{1,9}$/.test(seconds) ? Number(seconds) : undefined
  }
  return undefined
}

/**
 * Whether `Accept` prefers an event stream: it names `text/event-stream`, at no lower quality than what it gives to
 * JSON. A wildcard alone does not ask for a stream (RFC 9110 §12.5.1).
 */
export function prefersEventStream(accept: string | undefined): boolean {
  if (!accept?.toLowerCase().includes('text/event-stream')) return false
  const quality = new Map<string, number>()
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map(part => part.trim().toLowerCase())
    const q = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    quality.set(type, q === undefined ? 1 : Number(q) || 0)
  }
  const stream = quality.get('text/event-stream') ?? 0
  const json = quality.get('application/json') ?? quality.get('application/*') ?? quality.get('*/*') ?? 0
  return stream > 0 && stream >= json
}
