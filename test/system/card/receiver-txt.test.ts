import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../../build/bundle-file.ts'
import { commentedOut } from '../../../src/system/card/receiver-txt.ts'

t.test('no secret is left of a line, whatever its characters', async t => {
  for (const [text, expected] of [
    ['api-key=secret\r\n', '#api-key=\r\n'],
    ['API_KEY=\r"secret"\n', '#API_KEY=\n'],
    ['wifi-password=sec\rret\r\nname=a', '#wifi-password=\r\n#name=a'],
    ['wifi-password=sec\u2028ret', '#wifi-password='],
    ['#wifi-password=old\n', '#wifi-password=\n'],
    ['\t## Api_Key = "old"\r\n', '\t## Api_Key =\r\n'],
  ] as const)
    t.equal(commentedOut(text), expected)
})

t.test('the comments of the template stay as they are', async t => {
  const template = readFileSync(join(REPOSITORY, 'build/image/receiver.txt'), 'utf8')
  t.equal(commentedOut(template), template)
})
