import { execFileSync } from 'node:child_process'
import { test } from 'tap'
import { globMatches } from '../../../hal/format/glob.ts'

const cases: readonly (readonly [pattern: string, name: string, is: boolean])[] = [
  ['eth0', 'eth0', true],
  ['eth0', 'eth01', false],
  ['eth0', 'xeth0', false],
  ['*', 'eth0', true],
  ['*', '', true],
  ['en*', 'enp1s0', true],
  ['e*0', 'enp1s0', true],
  ['e*1', 'enp1s0', false],
  ['eth?', 'eth0', true],
  ['eth?', 'eth', false],
  ['eth[0-3]', 'eth3', true],
  ['eth[0-3]', 'eth4', false],
  ['eth[!0-3]', 'eth4', true],
  ['eth[!0-3]', 'eth0', false],
  ['eth[]x]', 'eth]', true],
  ['eth[', 'eth[', true],
  ['eth[a^]', 'eth^', true],
  ['eth.0', 'ethx0', false],
  ['eth\\*', 'eth*', true],
  ['eth\\*', 'eth0', false],
  ['(eth|x)+$', 'eth', false],
]

test('patterns match as in the shell', t => {
  for (const [pattern, name, is] of cases) {
    t.equal(globMatches(pattern, name), is, `${name} by ${pattern}`)
    const script = 'case "$1" in ($2) echo yes;; esac'
    const answer = execFileSync('sh', ['-c', script, 'sh', name, pattern], { encoding: 'utf8' })
    t.equal(answer.trim() === 'yes', is, `${name} by ${pattern}, in the shell`)
  }
  t.equal(globMatches('eth[9-0]', 'eth5'), false, 'a range that runs backwards')
  t.end()
})
