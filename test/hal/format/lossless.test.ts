import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { decodeLossless, encodeLossless } from '../../../hal/format/lossless.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { Random, SEED } from '../../support/random.ts'

t.test('UTF-8 is read as ever', async t => {
  for (const text of [
    '',
    'a',
    'Großer Saal',
    '会議室',
    '🎬 at the end 🎬',
    '\ufeffmark',
    '\0',
    '\ud7ff\ue000\u{10ffff}',
  ])
    t.equal(decodeLossless(Buffer.from(text)), text)
})

t.test('every other byte is kept', async t => {
  for (const [bytes, text] of [
    [[0xff], '\udcff'],
    [[0x80], '\udc80'],
    [[0x61, 0xe9, 0x62], 'a\udce9b'],
    [[0xc3], '\udcc3'],
    [[0xc0, 0xaf], '\udcc0\udcaf'],
    [[0xe0, 0x80, 0xaf], '\udce0\udc80\udcaf'],
    [[0xed, 0xb2, 0x80], '\udced\udcb2\udc80'],
    [[0xf0, 0x9f, 0x8e], '\udcf0\udc9f\udc8e'],
    [[0xf4, 0x90, 0x80, 0x80], '\udcf4\udc90\udc80\udc80'],
    [[0xf0, 0x9f, 0x8e, 0xac, 0xff], '🎬\udcff'],
  ] as const) {
    t.equal(decodeLossless(Buffer.from(bytes)), text)
    t.same(encodeLossless(text), Buffer.from(bytes))
  }
})

t.test(`random bytes come back as they were, seed ${SEED}`, async t => {
  const random = new Random(SEED)
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const decoded = (bytes: Buffer) => {
    try {
      return utf8.decode(bytes)
    } catch {
      return undefined
    }
  }
  let valid = 0
  const wrong: string[] = []
  for (let n = 0; n < 20_000; n++) {
    const some = () => random.pick([random.below(256), 0xc3, 0xa9, 0xf0, 0x9f, 0x8e, 0xac])
    const bytes = Buffer.from(Array.from({ length: random.below(12) }, some))
    const text = decodeLossless(bytes)
    const expected = decoded(bytes)
    if (expected !== undefined) valid++
    const isRight = expected === undefined ? !text.isWellFormed() : text === expected
    if (!isRight || !encodeLossless(text).equals(bytes)) wrong.push(bytes.toString('hex'))
  }
  t.same(wrong, [])
  t.ok(valid > 1_000, `${valid} were valid`)
})

t.test('64 KiB of them take milliseconds', async t => {
  const bytes = Buffer.alloc(65_536, 0xff)
  // By processor time: the machine may be busy with something else.
  const before = process.cpuUsage()
  const back = encodeLossless(decodeLossless(bytes))
  const { user, system } = process.cpuUsage(before)
  t.same(back, bytes)
  t.ok((user + system) / 1000 < 500)
})

t.test('a file is edited around them', async t => {
  const root = temporaryFolder(t)
  writeFileSync(join(root, 'file'), Buffer.from('# caf\xe9\nname old\n', 'latin1'))
  const files = new Files(root)
  await files.writeAtomic('/file', (await files.readLossless('/file'))?.replace('old', 'né') ?? '')
  t.equal(readFileSync(join(root, 'file')).toString('latin1'), '# caf\xe9\nname n\xc3\xa9\n')
})
