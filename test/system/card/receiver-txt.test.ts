import t from 'tap'
import { commentedOut } from '../../../src/system/card/receiver-txt.ts'

t.test('no secret is left of a line, whatever its characters', async t => {
  for (const [text, expected] of [
    ['api-key=secret\r\n', '#api-key=\r\n'],
    ['API_KEY=\r"secret"\n', '#API_KEY=\n'],
    ['wifi-password=sec\rret\r\nname=a', '#wifi-password=\r\n#name=a'],
    ['wifi-password=sec\u2028ret', '#wifi-password='],
  ] as const)
    t.equal(commentedOut(text), expected)
})
