import t from 'tap'
import { compareVersions } from '../../../hal/format/semver.ts'

t.test('versions in the order of their precedence', async t => {
  // The examples of §11, and what lies around them.
  const ascending = [
    '0.0.0',
    '0.9.10',
    '1.0.0-0',
    '1.0.0-2',
    '1.0.0-11',
    '1.0.0--',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '1.0.1',
    '1.2.0',
    '1.10.0',
    '2.0.0',
    '10.0.0',
  ]
  for (const [at, one] of ascending.entries())
    for (const [against, other] of ascending.entries())
      t.equal(Math.sign(compareVersions(one, other) ?? Number.NaN), Math.sign(at - against), `${one} and ${other}`)
})

t.test('the build does not count, and numbers that are left out are 0', async t => {
  for (const [one, other] of [
    ['1.0.0+a', '1.0.0+b.7'],
    ['1.0.0-rc.1+a', '1.0.0-rc.1'],
    ['1', '1.0.0'],
    ['1.2', '1.2.0+x'],
  ] as const)
    t.equal(compareVersions(one, other), 0, `${one} and ${other}`)
})

t.test('a text that is no version cannot be compared', async t => {
  for (const text of [
    ...[
      '',
      'v1.0.0',
      '1.0.0.0',
      '01.0.0',
      '1.00.0',
      '1.0.0-',
      '1.0.0-01',
      '1.0.0-a..b',
      '1.0.0+',
      '1.0.0+a+b',
      ' 1.0.0',
    ],
    ...['1.0.0\n', '-1.0.0', '1.0.0-ä', '1,0', '"1.1.0"', `1.0.0-${'a'.repeat(60)}`, '99999999999999999.0.0'],
  ]) {
    t.equal(compareVersions(text, '1.0.0'), undefined, text)
    t.equal(compareVersions('1.0.0', text), undefined, text)
  }
})
