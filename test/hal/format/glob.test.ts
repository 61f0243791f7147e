import { execFileSync } from 'node:child_process'
import { test } from 'tap'
import { globMatches } from '../../../hal/format/glob.ts'
import { needs } from '../../support/needs.ts'
import { Random, SEED } from '../../support/random.ts'

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

test('patterns match as in a shell', t => {
  for (const [pattern, name, is] of cases) {
    t.equal(globMatches(pattern, name), is, `${name} by ${pattern}`)
    const script = 'case "$1" in ($2) echo yes;; esac'
    const answer = execFileSync('sh', ['-c', script, 'sh', name, pattern], { encoding: 'utf8' })
    t.equal(answer.trim() === 'yes', is, `${name} by ${pattern}, in the shell`)
  }
  t.equal(globMatches('eth[9-0]', 'eth5'), false, 'a range that runs backwards')
  t.end()
})

/** fnmatch(3) of the C library, for a pair of pattern and name on each line. */
const FNMATCH = `
import sys, json, ctypes
libc = ctypes.CDLL(None)
for line in sys.stdin:
    pattern, name = json.loads(line)
    print(libc.fnmatch(pattern.encode(), name.encode(), 0))
`

test('patterns match as in fnmatch(3)', { skip: needs('python3') }, t => {
  const random = new Random(SEED)
  const pairs = Array.from({ length: 10_000 }, () => [
    random.text(['a', 'b', '*', '*', '?', '[', '[', ']', '!', '^', '-', '\\', 'c', '0'], 8),
    random.text(['a', 'b', 'c', '0', ']', '[', '-', '!', '^'], 5),
  ])
  const input = pairs.map(pair => JSON.stringify(pair)).join('\n')
  const answers = execFileSync('python3', ['-c', FNMATCH], { input, encoding: 'utf8' }).trim().split('\n')
  const wrong = pairs.filter(([pattern = '', name = ''], at) => globMatches(pattern, name) !== (answers[at] === '0'))
  t.strictSame(wrong, [], `seed ${SEED}`)
  t.end()
})

test('no pattern takes long', t => {
  const start = process.cpuUsage()
  for (const piece of ['*', '*a', '*?', '[', '[!', '[a', '[]', '\\', '?*[a-z]']) {
    const pattern = piece.repeat((64 * 1024) / piece.length)
    for (const name of ['eth0', 'a'.repeat(64), '']) for (const end of ['', 'x']) globMatches(pattern + end, name)
  }
  const { user, system } = process.cpuUsage(start)
  t.ok(user + system < 3_000_000, `${(user + system) / 1000} ms`)
  t.end()
})
