import t from 'tap'
import { BitWriter } from './bits.ts'
import { BARS, decoderConfiguration, picture, pictureParameters, sequenceParameters } from './h264.ts'

const SIZE = { width: 320, height: 176 }

t.test('Exp-Golomb codes are those of ITU-T H.264, table 9-2', async t => {
  const codes = ['1', '010', '011', '00100', '00101', '00110', '00111', '0001000', '0001001', '0001010']
  for (const [value, code] of codes.entries()) {
    const bits = new BitWriter().ue(value).finish()
    t.equal(toBits(bits), `${code}1`.padEnd(8, '0'), `${value}`)
  }
})

t.test('bits fill bytes from the left', async t => {
  t.same(new BitWriter().u(3, 0b101).u(7, 0b0000001).u(31, 0x7fffffff).finish(), [0xa0, 0x7f, 0xff, 0xff, 0xff, 0xc0])
  t.same(new BitWriter().u(1, 1).align().fill(3, 9).finish(), [0x80, 9, 9, 9, 0x80])
  t.throws(() => new BitWriter().u(1, 1).fill(1, 0), { message: 'not byte-aligned' })
})

t.test('parameter sets', async t => {
  // Profile 66 with constraints 0 and 1, level 40; then 1 1 011 010 0, 19 and 10 for the size, 1 1 0 0.
  t.equal(sequenceParameters(SIZE).toString('hex'), '6742c028da0505e4')
  t.equal(pictureParameters().toString('hex'), '68ce3c80')
  t.equal(decoderConfiguration(SIZE).toString('hex'), '0142c028ffe100086742c028da0505e401000468ce3c80')
})

t.test('a picture', async t => {
  for (const number of [0, 1, 7]) {
    const unit = picture(SIZE, number)
    t.equal(unit[0], 0x65, 'an IDR slice')
    t.notMatch(unit.toString('hex').replace(/(..)/g, '$1 '), /00 00 0[0-2] /, 'no start code inside')
    // 20 by 11 macroblocks of 384 samples, each with a header of a few bits.
    t.ok(unit.length > 220 * 384 && unit.length < 220 * 388, `${unit.length} bytes`)
  }
  t.notSame(picture(SIZE, 0), picture(SIZE, 1), 'it moves')
  t.equal(BARS.length, 8)
})

function toBits(bytes: readonly number[]): string {
  return bytes.map(byte => byte.toString(2).padStart(8, '0')).join('')
}
