import { test } from 'tap'
import { renameLocalHost } from '../../../hal/format/hosts.ts'

const cases: readonly (readonly [
  line: string,
  previous: string | undefined,
  next: string,
  expected: string,
  what: string,
])[] = [
  ['127.0.1.1\told', 'old', 'new', '127.0.1.1\tnew', 'a label'],
  ['127.0.1.1 old.example.net old', 'old', 'new', '127.0.1.1 new.example.net new', 'the domain is kept'],
  ['127.0.1.1 old.example.net', 'old', 'new', '127.0.1.1 new.example.net', 'only a name with a domain'],
  ['127.0.1.1 old older old-2', 'old', 'new', '127.0.1.1 new older old-2', 'names with the same beginning'],
  ['127.0.1.1 alias old', 'old', 'new', '127.0.1.1 alias new', 'an alias before it'],
  ['127.0.1.1 Alias Old.Lan OLD', 'old', 'new', '127.0.1.1 Alias new.Lan new', 'capital letters'],
  ['  127.0.1.1  \told  # old here\r', 'old', 'new', '  127.0.1.1  \tnew  # old here\r', 'white space and a comment'],
  ['127.0.1.1 other.lan other', undefined, 'new', '127.0.1.1 new.lan new', 'an unknown old name'],
  ['127.0.1.1 other.lan other', 'old', 'new', '127.0.1.1 new.lan new', 'an old name that is not in the table'],
  ['127.0.1.1', 'old', 'new', '127.0.1.1\tnew', 'no name'],
  ['127.0.1.1 127.0.1.1', 'old', 'new', '127.0.1.1 new.0.1.1', 'a name like the address'],
  ['127.0.1.1 # none', 'old', 'new', '127.0.1.1\tnew # none', 'a comment and no name'],
  ['127.0.1.1 old', 'old', 'new.lan', '127.0.1.1 new.lan', 'a new domain'],
  ['127.0.1.1 old.lan old', 'old', 'new.net', '127.0.1.1 new.net new', 'another domain'],
  ['127.0.1.1 old.lan old', 'old.lan', 'new', '127.0.1.1 new.lan new', 'an old name with its domain'],
  ['127.0.1.1 old.lan old', 'old.lan', 'new.net', '127.0.1.1 new.net new', 'both with their domains'],
  ['127.0.1.1 old.lan', 'old.lan', 'new.net', '127.0.1.1 new.net', 'the same, without an alias'],
  ['127.0.1.1 new.net new.lan', 'new.net', 'new.net', '127.0.1.1 new.net new.lan', 'the name that it has'],
  ['127.0.0.1 old', 'old', 'new', '127.0.0.1 old', 'another address'],
  ['127.0.1.10 old', 'old', 'new', '127.0.1.10 old', 'an address with the same beginning'],
  ['#127.0.1.1 old', 'old', 'new', '#127.0.1.1 old', 'a comment'],
  ['', 'old', 'new', '', 'an empty table'],
]

test('the host is renamed on its own line, and the rest is kept', t => {
  for (const [line, previous, next, expected, what] of cases) {
    t.equal(renameLocalHost(line, previous, next), expected, what)
    const table = (own: string) => `127.0.0.1 localhost old\n${own}\n::1 old # old\n`
    t.equal(renameLocalHost(table(line), previous, next), table(expected), `${what}, among others`)
  }
  t.end()
})

test('a second line with the same address and other names is kept', t => {
  const table = (name: string) => `127.0.1.1 printer.lan\n127.0.1.1 ${name}\n`
  t.equal(renameLocalHost(table('old'), 'old', 'new'), table('new'))
  t.end()
})

test('renaming back and forth restores the table, and the name is always in it', t => {
  for (const line of ['127.0.1.1 old', '127.0.1.1 old.lan old', '127.0.1.1\told alias # c'])
    for (const next of ['new', 'n-1']) {
      const renamed = renameLocalHost(line, 'old', next)
      t.ok(renamed.split(/\s+/).includes(next), `${next} in ${renamed}`)
      t.equal(renameLocalHost(renamed, next, 'old'), line)
    }
  t.end()
})
