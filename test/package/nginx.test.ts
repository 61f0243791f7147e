/** The configuration of nginx that ships counts clients as the service does, and waits as long. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { clientAt } from '../../src/http/address.ts'
import { LIMITS } from '../../src/limits.ts'
import { Random, SEED } from '../support/random.ts'
import { examples } from '../support/readme.ts'

const configuration = readFileSync(join(REPOSITORY, 'build/package/nginx.conf'), 'utf8')
const [, map = ''] = /map \$remote_addr \$client_network \{\n(.*?)\n\t\}/s.exec(configuration) ?? []
const rules = Array.from(map.matchAll(/"~(.+)" \$(\w+);/g), ([, pattern = '', variable = '']) => ({
  pattern: new RegExp(pattern),
  variable,
}))

/** As nginx evaluates it: the first pattern that matches. */
function counted(address: string): string {
  for (const { pattern, variable } of rules) {
    const match = pattern.exec(address)
    if (match) return variable === 'remote_addr' ? address : (match[1] ?? '')
  }
  return address
}

t.test('no two clients count as one, and a /64 counts as two at most', async t => {
  t.equal(rules.length, 4)
  const generator = new Random(SEED)
  const pick = <T>(values: readonly T[]) => values[Math.floor(generator.next() * values.length)]
  const networks = new Map<string, string>()
  const keys = new Map<string, Set<string>>()
  for (let n = 0; n < 20_000; n++) {
    const groups = Array.from({ length: 7 }, () => pick(['0', '0', '0', '1', 'ab']))
    const host = [pick(['2001', '2a02', 'fe80', 'fd00', '8']), ...groups].join(':')
    // Shortened as nginx does it (RFC 5952).
    const address = new URL(`http://[${host}]`).hostname.slice(1, -1)
    const [network, key] = [clientAt(address).network, counted(address)]
    if ((networks.get(key) ?? network) !== network) t.fail(`${address} counts with ${networks.get(key)}`)
    networks.set(key, network)
    keys.set(network, (keys.get(network) ?? new Set()).add(key))
  }
  t.ok(keys.size > 100, `${keys.size} networks`)
  t.same(
    [...keys].filter(([, { size }]) => size > 2),
    [],
  )
  t.equal(counted('192.0.2.17'), '192.0.2.17')
})

t.test('a stream may be silent, and a poll be held, for as long as the options allow', async t => {
  const { heartbeatS, holdS } = Object.fromEntries(LIMITS)
  const [example = ''] = examples('build/package/README.md', 'TLS', 'nginx')
  for (const text of [configuration, example]) {
    const [, seconds] = /proxy_read_timeout (\d+)s;/.exec(text) ?? []
    t.ok(Number(seconds) > Math.max(heartbeatS?.max ?? Number.NaN, holdS?.max ?? Number.NaN), `${seconds} s`)
  }
})
