/** Header values that select the response: ETags (RFC 9110 §8.8.3, §13.1), Prefer (RFC 7240), Accept. */
import * as Type from 'typebox/type'
import { Problem } from '../problem.ts'
import type { WholeReply } from './reply.ts'
import type { Request } from './request.ts'
import type { ParameterDocs } from './route.ts'

export interface EntityTag {
  readonly weak: boolean
  /** The text between the quotes. */
  readonly tag: string
}

const ANY = /^[ \t]*\*[ \t]*$/
/** A list element, which may be empty (RFC 9110 §5.6.1), and the comma after it. */
const LIST_ELEMENT = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

export function formatEtag(id: string): string {
  return `"${id}"`
}

/** Parses the tags of `If-Match` or `If-None-Match`; undefined if the header is invalid. */
export function parseEtags(header: string): '*' | readonly EntityTag[] | undefined {
  if (ANY.test(header)) return '*'
  const tags: EntityTag[] = []
  LIST_ELEMENT.lastIndex = 0
  while (LIST_ELEMENT.lastIndex < header.length) {
    const match = LIST_ELEMENT.exec(header)
    if (!match) return undefined
    if (match[2] !== undefined) tags.push({ weak: match[1] !== undefined, tag: match[2] })
  }
  return tags
}

/** Matches `If-None-Match` against the current ETag, by weak comparison (RFC 9110 §13.1.2). */
export function matchesWeakly(header: string | undefined, id: string): boolean {
  const tags = header === undefined ? undefined : parseEtags(header)
  return tags === '*' || (tags?.some(({ tag }) => tag === id) ?? false)
}

/** Returns the 304 for a client that has the current state (RFC 9110 §15.4.5); undefined for any other client. */
export function notModified(request: Request, id: string): WholeReply | undefined {
  if (!matchesWeakly(request.header('if-none-match'), id)) return undefined
  return { status: 304, headers: ['ETag', formatEtag(id)] }
}

/** The header of a GET that `notModified` handles. */
export const IfNoneMatch: ParameterDocs = {
  in: 'header',
  name: 'If-None-Match',
  schema: Type.String(),
  description: 'The ETag of the copy that the client has. 304 if it is still current.',
}

/** Matches `If-Match` against the current ETag, by strong comparison (RFC 9110 §13.1.1): a weak tag never matches. */
export function matchesStrongly(header: string, id: string): boolean {
  const tags = parseEtags(header)
  return tags === '*' || (tags?.some(({ weak, tag }) => !weak && tag === id) ?? false)
}

/**
 * Checks the preconditions of a request that changes a resource whose current ETag is `id` (RFC 9110 §13.2.2). A header
 * that names no tag is refused rather than ignored: a client that sends one does not mean to overwrite.
 * @throws {Problem} 400 or 412
 */
export function checkPreconditions(request: Request, id: string): void {
  const ifMatch = requireEtags(request, 'If-Match')
  if (ifMatch !== undefined && !matchesStrongly(ifMatch, id))
    throw preconditionFailed(
      matchesWeakly(ifMatch, id)
        ? 'If-Match names a weak ETag, which matches nothing. Send it without W/.'
        : 'The resource has changed since that ETag. Read it again.',
      id,
    )
  const ifNoneMatch = requireEtags(request, 'If-None-Match')
  if (ifNoneMatch !== undefined && matchesWeakly(ifNoneMatch, id))
    throw preconditionFailed('If-None-Match names the current state of the resource.', id)
}

/** Returns the seconds of the first `wait` in `Prefer` (RFC 7240 §2, §4.3); undefined if it is missing or invalid. */
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
 * Reports whether `Accept` prefers a media type to the usual one: it names the type, at no lower quality. A wildcard alone
 * does not count as naming it (RFC 9110 §12.5.1).
 */
export function prefers(accept: string | undefined, type: string, usual: string): boolean {
  if (!accept?.toLowerCase().includes(type)) return false
  const qualities = new Map<string, number>()
  for (const range of accept.split(',')) {
    const [name = '', ...parameters] = range.split(';').map(part => part.trim().toLowerCase())
    const q = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    // A type may be listed once for each of its versions.
    qualities.set(name, Math.max(qualities.get(name) ?? 0, q === undefined ? 1 : Number(q) || 0))
  }
  const quality = qualities.get(type) ?? 0
  const wildcard = usual.replace(/\/.*/, '/*')
  return quality > 0 && quality >= (qualities.get(usual) ?? qualities.get(wildcard) ?? qualities.get('*/*') ?? 0)
}

/** Returns the value of a header; undefined if absent. @throws {Problem} 400 if it names no tag. */
export function requireEtags(request: Request, name: 'If-Match' | 'If-None-Match'): string | undefined {
  const header = request.header(name.toLowerCase())
  if (header === undefined) return undefined
  const tags = parseEtags(header)
  if (tags === undefined || tags.length === 0) throw notEtags(name)
  return header
}

/** Returns the 400 for a header that has no ETags. */
export function notEtags(name: string): Problem {
  const detail = `${name} must be * or ETags in double quotes, such as "64c06ef3-…", separated by commas.`
  return new Problem('bad-request', detail)
}

function preconditionFailed(detail: string, id: string): Problem {
  return new Problem('precondition-failed', detail, { headers: ['ETag', formatEtag(id)] })
}
