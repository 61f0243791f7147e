/** Polls without a server: what they are answered, and when. */
import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Authenticator, Credential } from '../../src/auth/authenticator.ts'
import type { Refusal } from '../../src/auth/challenge.ts'
import { HeldPoll, PollAnswers } from '../../src/events/long-poll.ts'
import type { Reader } from '../../src/events/reader.ts'
import type { Readers } from '../../src/events/readers.ts'
import { Topic } from '../../src/events/topic.ts'
import { type WholeReply, wholeOf } from '../../src/http/reply.ts'
import type { Request } from '../../src/http/request.ts'

const HOLD_MS = 1_000

function newTopic(): Topic {
  return new Topic({
    ...{ name: 'lamp', grant: 'moderator:r', maxEvents: 2, maxBytes: 9_999, newId: randomUUID },
    snapshot: () => '{"whole":true}',
  })
}

const event = (id: string, data: object) => ({ id, contentType: 'application/json', event: 'lamp.changed', data })
const parsed = ({ status, headers, body }: WholeReply) => ({ status, headers, data: body && JSON.parse(String(body)) })

/** A poll that is held at the latest event, with a credential that is valid for so many milliseconds. */
function start(t: Test, validMs = Number.POSITIVE_INFINITY) {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const topic = newTopic()
  const state: { refusal: Refusal | undefined } = { refusal: undefined }
  const held = new Set<Reader>()
  const readers = { add: (reader: Reader) => held.add(reader), remove: (reader: Reader) => held.delete(reader) }
  const authenticator = { validMs: () => validMs, refusalNow: () => state.refusal } as unknown as Authenticator
  const options = { topic, answers: new PollAnswers(topic), authenticator, readers: readers as unknown as Readers }
  const credential = { sub: 'Ann' } as Credential
  const request = { network: 'a network' } as Request
  const poll = new HeldPoll(options, request, credential, topic.head, HOLD_MS, ['X-More', 'yes'])
  const answers: ReturnType<typeof parsed>[] = []
  t.equal(poll.hold({ answer: reply => answers.push(parsed(wholeOf(reply))) }), poll)
  t.strictSame([...held], [poll])
  t.strictSame([poll.topic, poll.isHeld, poll.network, poll.credential], [topic, true, 'a network', credential])
  /** The answer, after which nothing is held, and nothing is answered. */
  const answer = () => {
    t.equal(answers.length, 1)
    t.equal(held.size, 0)
    mock.timers.tick(10 * HOLD_MS)
    t.equal(answers.length, 1)
    return answers[0]
  }
  return { topic, poll, state, held, answers, answer, pass: (ms: number) => mock.timers.tick(ms) }
}

/** The answer without events. */
const nothing = (topic: Topic) => ({
  status: 304,
  headers: ['ETag', `"${topic.latestId}"`, 'X-More', 'yes'],
  data: undefined,
})

t.test('events after a cursor, and the id from which to go on', t => {
  const topic = newTopic()
  const answers = new PollAnswers(topic)
  const [one, two, three] = [1, 2, 3].map(level => topic.changed(`{"level":${level}}`)) as [string, string, string]
  const reply = (id: string, data: object) => ({
    status: 200,
    headers: ['Content-Type', 'application/json', 'ETag', `"${id}"`],
    data,
  })
  const resync = reply(three, [
    { contentType: 'application/json', event: 'events.resync', data: { reason: 'unknown' } },
    event(three, { whole: true }),
  ])
  for (const [cursor, expected] of [
    [1, reply(three, [event(two, { level: 2 }), event(three, { level: 3 })])],
    [2, reply(three, [event(three, { level: 3 })])],
    [3, { status: 304, headers: ['ETag', `"${three}"`], data: undefined }],
    [0, resync],
    ['unknown', resync],
  ] as const) {
    const answer = answers.after(cursor)
    t.strictSame(parsed(answer), expected, `after ${cursor}`)
    t.equal(answers.after(cursor), answer, 'made once for all who ask')
  }
  const four = topic.changed('{"level":4}')
  t.strictSame(parsed(answers.after(3)), reply(four, [event(four, { level: 4 })]))
  t.notOk(topic.log.positionOf(one))
  t.end()
})

t.test('an answer that does not reach the latest event has the id of its last one', t => {
  const topic = new Topic({
    ...{ name: 'lamp', grant: 'moderator:r', maxEvents: 9, maxBytes: 1 << 20, newId: randomUUID },
    snapshot: () => '{}',
  })
  const [one] = ['x', 'y'].map(letter => topic.changed(JSON.stringify({ letter: letter.repeat(60_000) })))
  t.strictSame(new PollAnswers(topic).after(0).headers, ['Content-Type', 'application/json', 'ETag', `"${one}"`])
  t.end()
})

t.test('a poll is answered with the next event', t => {
  const { topic, poll, answers, answer } = start(t)
  poll.wake()
  poll.tick()
  t.strictSame(answers, [], 'nothing has changed')
  const id = topic.changed('{"level":1}')
  poll.wake()
  t.strictSame(answer(), {
    status: 200,
    headers: ['Content-Type', 'application/json', 'ETag', `"${id}"`, 'X-More', 'yes'],
    data: [event(id, { level: 1 })],
  })
  t.end()
})

t.test('a poll is answered when its time is up, or its credential expires', t => {
  for (const [validMs, refusal, ms] of [
    [Number.POSITIVE_INFINITY, undefined, HOLD_MS],
    [2 * HOLD_MS, undefined, HOLD_MS],
    [HOLD_MS / 2, 'expired', HOLD_MS / 2],
  ] as const)
    t.test(`after ${ms} ms`, t => {
      const { topic, state, answers, answer, pass } = start(t, validMs)
      pass(ms - 1)
      t.strictSame(answers, [])
      state.refusal = refusal
      pass(1)
      t.equal(answers.length, 1)
      if (refusal) t.match(answer(), { status: 401, data: { detail: 'The token has expired.' } })
      else t.strictSame(answer(), nothing(topic))
      t.end()
    })
  t.end()
})

t.test('a poll that must end is answered', t => {
  t.test('the service stops', t => {
    const { topic, poll, answer } = start(t)
    poll.end('shutting down')
    t.strictSame(answer(), nothing(topic))
    t.end()
  })
  t.test('its key is replaced', t => {
    const { topic, poll, answer } = start(t)
    topic.changed('{"level":1}')
    poll.end('key replaced')
    t.match(answer(), { status: 401, data: { detail: /^The API key has been replaced/ } }, 'no event')
    t.end()
  })
  t.test('another request has arrived', t => {
    const { topic, poll, answer } = start(t)
    poll.release()
    t.strictSame(answer(), nothing(topic))
    t.end()
  })
  t.end()
})

t.test('a poll whose connection has closed is not answered', t => {
  const { poll, held, answers, pass } = start(t)
  poll.cancel()
  t.equal(held.size, 0)
  pass(10 * HOLD_MS)
  t.strictSame(answers, [])
  t.end()
})
