import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { lineLog } from '../../src/log.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Sends a PATCH as raw bytes; resolves with the statuses of the answers. */
async function patch(service: TestService, headers: readonly string[], body: string | Buffer): Promise<string> {
  const head = [
    'PATCH /api/v1/system HTTP/1.1',
    'Host: device',
    `Authorization: Bearer ${service.key}`,
    'Content-Type: application/json',
    'Connection: close',
    ...headers,
  ].map(line => `${line}\r\n`)
  const answer = await service.raw(Buffer.concat([Buffer.from(`${head.join('')}\r\n`), Buffer.from(body)]))
  return Array.from(answer.matchAll(/HTTP\/1\.1 (\d{3})/g), match => match[1]).join(' ')
}

const sized = (body: string | Buffer) => `Content-Length: ${Buffer.byteLength(body)}`
const chunked = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`
const CHUNKED = 'Transfer-Encoding: chunked'

t.test('a body of any shape is accepted or refused, and a refused one changes nothing', async t => {
  const service = await startTestService(t)
  const before = await service.system()
  const deep = (n: number) => `{"ntp":${'['.repeat(n)}${']'.repeat(n)}}`
  const sizes = (n: number) => `{"deviceName":"Huge"${' '.repeat(n - 21)}}`
  const cases: readonly (readonly [name: string, headers: readonly string[], body: string | Buffer, answer: string])[] =
    [
      ['nothing', ['Content-Length: 0'], '', '400'],
      ['no length at all', [], '', '400'],
      ['with something behind it', ['Content-Length: 2'], '{}{"deviceName":"Second"}', '200'],
      ['64 KiB', [`Content-Length: ${65_536}`], sizes(65_536).replace('deviceName', 'DeviceName'), '422'],
      ['64 KiB and one byte', [`Content-Length: ${65_537}`], sizes(65_537), '413'],
      ['64 KiB and one byte, in chunks', [CHUNKED], chunked(sizes(65_537)), '413'],
      ['a gigabyte announced', ['Content-Length: 1073741824', 'Expect: 100-continue'], '', '413'],
      ['more digits than a number has', [`Content-Length: ${'9'.repeat(30)}`], '{}', '400'],
      [
        'compressed',
        ['Content-Encoding: gzip', sized(gzipSync('{"deviceName":"Zip"}'))],
        gzipSync('{"deviceName":"Zip"}'),
        '415',
      ],
      ['a byte-order mark', [sized('\ufeff{}')], '\ufeff{}', '400'],
      ['UTF-16', [sized(Buffer.from('{}', 'utf16le'))], Buffer.from('{}', 'utf16le'), '400'],
      ['broken UTF-8', [sized(Buffer.from([0x22, 0xc3, 0x22]))], Buffer.from([0x22, 0xc3, 0x22]), '400'],
      [
        'an overlong slash',
        [sized(Buffer.from([0x22, 0xc0, 0xaf, 0x22]))],
        Buffer.from([0x22, 0xc0, 0xaf, 0x22]),
        '400',
      ],
      [
        'a surrogate in UTF-8',
        [sized(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))],
        Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
        '400',
      ],
      ['a NUL', [sized('{}\0')], '{}\0', '400'],
      ...(
        [
          ['a name twice', '{"deviceName":"A","deviceName":"B"}', '400'],
          ['a name twice, once escaped', '{"deviceName":"A","devic\\u0065Name":"B"}', '400'],
          ['a name twice, below', '{"ntp":{"enabled":true,"enabled":false}}', '400'],
          ['32 levels', deep(31), '422'],
          ['33 levels', deep(32), '400'],
          ['10,000 levels', deep(10_000), '400'],
          ['30,000 levels of objects', '{"a":'.repeat(10_000), '400'],
          ['a prototype', '{"__proto__":{"deviceName":"X"}}', '422'],
          ['a prototype below', '{"ntp":{"__proto__":{"enabled":false}}}', '422'],
          ['a constructor', '{"constructor":{"prototype":{"deviceName":"X"}}}', '422'],
          ['names that every object has', '{"toString":null,"hasOwnProperty":1,"valueOf":{}}', '422'],
          ['a lone surrogate', '{"deviceName":"\\ud800"}', '422'],
          ['a lone surrogate as a name', '{"\\udfff":1}', '422'],
          ['a surrogate the wrong way round', '{"deviceName":"\\udc00\\ud800"}', '422'],
          ['a number that is none', '{"deviceName":1e999}', '422'],
          ['minus zero', '{"ntp":-0}', '422'],
          ['a million digits', `{"ntp":${'9'.repeat(60_000)}}`, '422'],
          ['null for everything', 'null', '422'],
          ['an array', '[{"deviceName":"X"}]', '422'],
          ['a string', '"deviceName"', '422'],
          ['null in an array', '{"ntp":{"servers":[null]}}', '422'],
          ['an array for an object', '{"ntp":[]}', '422'],
          ['an object for an array', '{"ntp":{"servers":{"0":"a.example"}}}', '422'],
          ['null for what cannot go', '{"deviceName":null}', '422'],
          ['a member that cannot go', '{"ntp":{"enabled":null}}', '422'],
          ['an empty name', '{"":1}', '422'],
          ['NaN', '{"ntp":NaN}', '400'],
          ['a comment', '{/**/}', '400'],
          ['a comma too many', '{"deviceName":"X",}', '400'],
          ['single quotes', "{'deviceName':'X'}", '400'],
          ['two documents', '{"deviceName":"X"}{}', '400'],
          ['a control character in a string', '{"deviceName":"\u0001"}', '400'],
          ['an escaped line end', '{"deviceName":"A\\nevent: forged"}', '422'],
          ['an escaped NUL', '{"deviceName":"A\\u0000"}', '422'],
          ['a path for a zone', '{"timezone":"../../../etc/passwd"}', '422'],
          ['a shell in a host', '{"hostname":"$(reboot)"}', '422'],
          ['an option for a server', '{"ntp":{"servers":["--help"]}}', '422'],
          ['a line end in a server', '{"ntp":{"servers":["a.example\\nNTP=evil"]}}', '422'],
        ] as const
      ).flatMap(([name, body, answer]) => [
        [name, [sized(body)], body, answer] as const,
        [`${name}, in chunks`, [CHUNKED], chunked(body), answer] as const,
      ]),
    ]
  for (const [name, headers, body, answer] of cases) t.equal(await patch(service, headers, body), answer, name)
  t.strictSame(await service.system(), before)
  t.equal(({} as { deviceName?: unknown }).deviceName, undefined, 'no prototype has got a property')
  t.strictSame(service.said, [])
})

t.test('ambiguous framing is refused, and no request is read from the body', async t => {
  const service = await startTestService(t)
  const before = await service.system()
  const hidden = `PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{"deviceName":"Evil"}`
  for (const [name, headers, body] of [
    ['two lengths', ['Content-Length: 2', 'Content-Length: 200'], `{}${hidden}`],
    ['the same length twice', ['Content-Length: 2', 'Content-Length: 2'], `{}${hidden}`],
    ['a list of lengths', ['Content-Length: 2, 2'], `{}${hidden}`],
    ['a signed length', ['Content-Length: +2'], `{}${hidden}`],
    ['a negative length', ['Content-Length: -2'], `{}${hidden}`],
    ['a hexadecimal length', ['Content-Length: 0x2'], `{}${hidden}`],
    ['length and chunks', ['Content-Length: 2', CHUNKED], `0\r\n\r\n${hidden}`],
    ['chunks and length', [CHUNKED, 'Content-Length: 2'], `0\r\n\r\n${hidden}`],
    ['chunks twice', [CHUNKED, CHUNKED], `0\r\n\r\n${hidden}`],
    ['chunks not last', ['Transfer-Encoding: chunked, identity'], `0\r\n\r\n${hidden}`],
    ['another coding', ['Transfer-Encoding: gzip'], `0\r\n\r\n${hidden}`],
    ['nearly chunks', ['Transfer-Encoding: xchunked'], `0\r\n\r\n${hidden}`],
    ['chunks by a vertical tab', ['Transfer-Encoding: \x0bchunked'], `0\r\n\r\n${hidden}`],
    ['a space before the colon', ['Transfer-Encoding : chunked'], `0\r\n\r\n${hidden}`],
    ['a folded header', ['Transfer-Encoding:', ' chunked'], `0\r\n\r\n${hidden}`],
    ['a chunk size that is no number', [CHUNKED], `zz\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['a chunk size with a prefix', [CHUNKED], `0x2\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['a signed chunk size', [CHUNKED], `+2\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['a chunk size over 64 bits', [CHUNKED], `10000000000000002\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['a chunk longer than it says', [CHUNKED], `1\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['chunks ended by LF alone', [CHUNKED], `2\n{}\n0\n\n${hidden}`],
    ['over 16 KiB of chunk extension', [CHUNKED], `2;${'x'.repeat(16_385)}\r\n{}\r\n0\r\n\r\n${hidden}`],
    ['8 KiB of trailers', [CHUNKED], `2\r\n{}\r\n0\r\nX: ${'x'.repeat(9_000)}\r\n\r\n${hidden}`],
  ] as const) {
    const statuses = await patch(service, headers, body)
    t.match(statuses, /^(400|413|431|501)$/, `${name}: ${statuses}`)
  }
  t.strictSame(await service.system(), before)
})

t.test('a body that is cut short changes nothing', async t => {
  const service = await startTestService(t)
  const before = await service.system()
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const)
    for (const [head, body] of [
      ['Content-Length: 30', '{"deviceName":"Half"}'],
      [CHUNKED, '15\r\n{"deviceName":"Half"}\r\n'],
    ] as const)
      await new Promise<void>((resolve, reject) => {
        const socket = connect(service.port, '127.0.0.1', () =>
          socket.write(
            `PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\n${head}\r\n\r\n${body}`,
            () => socket[leave](),
          ),
        )
        socket.on('close', () => resolve()).on('error', reject)
        socket.setEncoding('utf8').on('data', answer => t.match(answer, /^HTTP\/1\.1 400 /, `${leave}, ${head}`))
      })
  t.strictSame(await service.system(), before)
  t.equal((await service.patch({})).status, 200, 'and nothing is stuck behind it')
})

t.test('the answer to an invalid body is bounded', async t => {
  const service = await startTestService(t)
  for (const body of [
    `{"${'n'.repeat(10_000)}":[${Array(1_000).fill('"\\ud800"')}]}`,
    `{${Array.from({ length: 1_000 }, (_, n) => `"${n}":1`)}}`,
    `{"ntp":{"servers":[${Array(1_000).fill('1')}]}}`,
  ]) {
    const answer = await service.patch(body)
    const text = await answer.text()
    t.equal(answer.status, 422)
    t.ok(text.length < 10 * body.length, `${text.length} for ${body.length}`)
    t.ok(JSON.parse(text).errors.length <= 16)
  }
})

t.test('no value can forge an event or a line of the log', async t => {
  const service = await startTestService(t)
  const forged = 'id: 1\nevent: system.changed\ndata: {"deviceName":"Forged"}\n\n'
  let received = ''
  const { socket } = await service.stream()
  socket.on('data', chunk => {
    received += chunk
  })
  const names = ['A\u2028event: forged', 'data: x', ': comment', '\u{1f4fa}\u202e', '"}]', '</script>', '\\n\\n', ' x ']
  const tokens = [`${forged}panel`, '\r\n<3>forged', '\x1b[2J', '\u2029<3>forged']
  for (const [n, deviceName] of names.entries()) {
    const subject = service.token(['admin:w'], { sub: tokens[n % tokens.length] })
    const answer = await service.patch({ deviceName }, { Authorization: `Bearer ${subject}` })
    t.equal(answer.status, 200)
    await eventually(() => received.endsWith('\n\n') && received.split('event: system.changed\n').length > n + 1)
  }
  // In an event stream LF, CR or CRLF end a line, and U+2028 does not (WHATWG HTML §9.2.5).
  const lines = received.split(/\r\n|\r|\n/)
  const data = lines.filter(line => line.startsWith('data: ')).map(line => JSON.parse(line.slice(6)))
  t.strictSame(
    data,
    names.map(deviceName => ({ deviceName })),
  )
  t.equal(lines.filter(line => line.startsWith('event: ')).length, names.length)
  t.equal(lines.filter(line => line.startsWith('id: ')).length, names.length)
  socket.destroy()
  const records: string[] = []
  const log = lineLog(line => records.push(line))
  for (const line of service.log) log('notice', line)
  t.ok(records.length > names.length)
  for (const line of records) t.match(line, /^<5>[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\n$/)
})
