import t from 'tap'
import { matchesStrongly, matchesWeakly, parseEtags, preferredWait, prefers } from '../../src/http/conditional.ts'

t.test('ETags are parsed by the grammar of RFC 9110', async t => {
  const a = { weak: false, tag: 'a' }
  const b = { weak: true, tag: 'b' }
  const cases = [
    ['*', '*'],
    [' * ', '*'],
    ['"a"', [a]],
    ['W/"b"', [b]],
    ['"a", W/"b"', [a, b]],
    ['"a",W/"b" ,  "a"', [a, b, a]],
    ['""', [{ weak: false, tag: '' }]],
    ['"a,b"', [{ weak: false, tag: 'a,b' }]],
    ['', []],
    [' , ,', []],
    ['"a",,"a"', [a, a]],
    [',"a" ,\t', [a]],
    ['"\xe9"', [{ weak: false, tag: '\xe9' }]],
    ['"a"\xa0', undefined],
    ['*, *', undefined],
    ['a', undefined],
    ['"a', undefined],
    ['"a" "b"', undefined],
    ['w/"a"', undefined],
    ['*, "a"', undefined],
    ['"a" b', undefined],
    ['"\x7f"', undefined],
  ] as const
  for (const [header, expected] of cases) t.strictSame(parseEtags(header), expected, header)
})

t.test('If-Match compares strongly, If-None-Match weakly', async t => {
  t.equal(matchesStrongly('"x", "a"', 'a'), true)
  t.equal(matchesStrongly('W/"a"', 'a'), false)
  t.equal(matchesStrongly('*', 'a'), true)
  t.equal(matchesStrongly('nonsense', 'a'), false)
  t.equal(matchesWeakly('W/"a"', 'a'), true)
  t.equal(matchesWeakly('"b"', 'a'), false)
  t.equal(matchesWeakly(undefined, 'a'), false)
})

t.test('the first wait of Prefer counts, if it is valid', async t => {
  const cases = [
    ['wait=10', 10],
    ['respond-async, wait=10', 10],
    ['WAIT = 10', 10],
    ['wait="10"; foo="bar"', 10],
    ['wait=10, wait=20', 10],
    ['wait=0', 0],
    ['wait=999999999', 999_999_999],
    ['wait', undefined],
    ['wait=', undefined],
    ['wait=1.5', undefined],
    ['wait=-1', undefined],
    ['wait=1e3', undefined],
    ['wait=9999999999999999999', undefined],
    ['await=10', undefined],
    [undefined, undefined],
  ] as const
  for (const [header, expected] of cases) t.equal(preferredWait(header), expected, `${header}`)
})

t.test('only a client that asks for a stream gets one', async t => {
  const cases = [
    ['text/event-stream', true],
    ['Text/Event-Stream', true],
    ['text/event-stream, */*', true],
    ['text/event-stream, application/json', true],
    ['text/event-stream;q=0.9, application/json;q=0.8', true],
    ['text/event-stream;q=0.8, application/json', false],
    ['text/event-stream;q=0.8, */*', false],
    ['text/event-stream;q=0', false],
    ['application/json', false],
    ['*/*', false],
    ['text/*', false],
    ['', false],
    [undefined, false],
  ] as const
  for (const [header, expected] of cases)
    t.equal(prefers(header, 'text/event-stream', 'application/json'), expected, `${header}`)
})
