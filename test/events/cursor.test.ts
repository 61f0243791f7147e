import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { pollCursor, streamCursor } from '../../src/events/cursor.ts'
import { EventLog } from '../../src/events/event-log.ts'
import { Request } from '../../src/http/request.ts'

const log = new EventLog({ maxEvents: 2, maxBytes: 9_999, newId: randomUUID })
/** By position. The first two are forgotten. */
const ids = [log.latestId, ...Array.from({ length: 4 }, () => log.append('lamp.changed', '{}'))] as string[]
const [, gone = '', one = '', two = '', three = ''] = ids
const other = randomUUID()

function request(headers: Record<string, string>, query = ''): Request {
  return new Request({ headers } as unknown as IncomingMessage, new URLSearchParams(query), '', '')
}

const notAnId = (where: string) => `${where} must be the UUID of an event, as in an ETag or in the id of an event.`
const NOT_ETAGS = 'If-None-Match must be * or ETags in double quotes, such as "64c06ef3-…", separated by commas.'

t.test('where a client stopped', t => {
  for (const [query, expected] of [
    ['', 'none'],
    [`initialEventId=${two}`, 3],
    [`initialEventId=${two.toUpperCase()}`, 3],
    [`initialEventId=${other}`, 'unknown'],
    [`initialEventId=${gone}`, 'unknown'],
  ] as const) {
    t.equal(streamCursor(request({}, query), log), expected, `a stream with ${query}`)
    t.equal(pollCursor(request({}, query), log), expected, `a poll with ${query}`)
    t.equal(streamCursor(request({ 'last-event-id': ' ' }, query), log), expected)
    t.equal(pollCursor(request({ 'if-none-match': ' ' }, query), log), expected)
  }
  for (const [header, expected] of [
    [one, 2],
    [` ${three.toUpperCase()} `, 4],
    [other, 'unknown'],
  ] as const)
    t.equal(streamCursor(request({ 'last-event-id': header }, `initialEventId=${two}`), log), expected, header)
  for (const [header, expected] of [
    [`"${one}"`, 2],
    [`"${three}" `, 4],
    [`"${three.toUpperCase()}"`, 4],
    [`W/"${two}"`, 3],
    ['*', 4],
    [`"${other}"`, 'unknown'],
    [`"${one}", "${three}", "${two}"`, 4],
    [`"${three}", "${other}"`, 4],
    [`"${other}", "${gone}", "${one}"`, 2],
    [`"${other}", "${gone}"`, 'unknown'],
  ] as const)
    t.equal(pollCursor(request({ 'if-none-match': header }, `initialEventId=${two}`), log), expected, header)
  t.end()
})

t.test('anything else is refused', t => {
  for (const id of ['latest', `${one}0`, `x${one}`, `"${one}"`]) {
    const refusal = { kind: 'bad-request', message: notAnId('initialEventId') }
    t.throws(() => streamCursor(request({}, `initialEventId=${id}`), log), refusal, id)
    t.throws(() => pollCursor(request({}, `initialEventId=${id}`), log), refusal, id)
    t.throws(() => streamCursor(request({ 'last-event-id': id }), log), { message: notAnId('Last-Event-ID') }, id)
  }
  for (const [header, message] of [
    ['"latest"', notAnId('An ETag of If-None-Match')],
    [`"${one}", "latest"`, notAnId('An ETag of If-None-Match')],
    [one, NOT_ETAGS],
    [`x"${one}"`, NOT_ETAGS],
    [`"${one}"x`, NOT_ETAGS],
    [`"${one}`, NOT_ETAGS],
  ] as const)
    t.throws(() => pollCursor(request({ 'if-none-match': header }), log), { kind: 'bad-request', message }, header)
  t.end()
})
