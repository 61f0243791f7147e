import t from 'tap'
import { parseEvents } from '../../src/page/event-source.ts'

async function parsed(chunks: readonly string[]): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const event of parseEvents(streamOf(chunks), () => undefined)) found.push(event)
  return found
}

function streamOf(chunks: readonly string[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(Buffer.from(chunk, 'latin1'))
      controller.close()
    },
  })
}

t.test('events, wherever the network cuts them', async t => {
  const text = Buffer.from(
    'retry: 2000\n: hello\n\nid: 1\nevent: system.changed\ndata: {"deviceName":"Salle d’été"}\n\n:\n\nevent: events.resync\ndata: {}\n\nid: 9\nevent: cut',
  ).toString('latin1')
  const expected = [
    { retryMs: 2_000 },
    { id: '1', event: 'system.changed', data: '{"deviceName":"Salle d’été"}' },
    { id: '', event: 'events.resync', data: '{}' },
  ]
  t.strictSame(await parsed([text]), expected)
  t.strictSame(await parsed([...text]), expected, 'byte by byte')
  const carriage = text.replaceAll('\n', '\r\n')
  t.strictSame(await parsed([carriage]), expected, 'CRLF')
  t.strictSame(await parsed([...carriage]), expected, 'CRLF, byte by byte')
})

t.test('a comment is heard', async t => {
  let heard = 0
  for await (const _ of parseEvents(streamOf([':\n\n', ':\n\n']), () => heard++));
  t.equal(heard, 2)
})
