import t from 'tap'
import { decodeDictionary, decodePlist, encodePlist, type Plist } from './plist.ts'

t.test('an encoded value is decoded', async t => {
  const values: Record<string, Plist> = {
    booleans: [true, false],
    'integers of each size': [0, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER],
    'integers beyond a number': [2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
    reals: [0.5, -1.25, 1 / 3],
    texts: ['', 'ASCII', "Ann's iPhone", 'Zoë 🎬', 'a'.repeat(14), 'a'.repeat(15), 'é'.repeat(300)],
    bytes: [Buffer.alloc(0), Buffer.from([0, 255]), Buffer.alloc(70_000, 7)],
    'no items': [[], {}],
    'more than 255 objects': Array.from({ length: 300 }, (_, index) => `item ${index}`),
    nested: { streams: [{ type: 110, streamConnectionID: 2n ** 62n }], deep: { deeper: [[['x']]] } },
  }
  for (const [what, value] of Object.entries(values)) t.same(decodePlist(encodePlist(value)), value, what)
})

t.test('the bytes are those that plutil(1) makes', async t => {
  t.equal(
    encodePlist({ type: 110 }).toString('hex'),
    '62706c6973743030' + // bplist00
      'd10102' + // a dictionary of one pair, objects 1 and 2
      '5474797065' + // "type"
      '106e' + // 110
      '080b10' + // where the objects are
      '000000000000' + // unused, sort version
      '0101' + // sizes of an offset and of a reference
      '000000000000000300000000000000000000000000000012', // objects, the outermost, where the offsets are
  )
})

t.test('anything but a property list is refused', async t => {
  for (const bytes of [Buffer.alloc(0), Buffer.from('<?xml version="1.0"?>'), Buffer.alloc(100)])
    t.throws(() => decodePlist(bytes), { message: 'not a binary property list' })
  t.throws(() => decodeDictionary(encodePlist([1])), { message: 'not a dictionary' })
})
