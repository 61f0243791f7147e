/** A TLS certificate of the owner's, on the boot partition. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { Board } from './board.ts'

const [CERTIFICATE, KEY] = ['certificate.pem', 'key.pem'] as const

function makePair(t: Test, ...more: readonly string[]) {
  const at = (name: string) => join(folder, name)
  const folder = temporaryFolder(t)
  const subject = ['-newkey', 'rsa:2048', '-subj', '/CN=room-4.example', '-days', '1']
  const options = ['req', '-x509', ...subject, '-keyout', at(KEY), '-out', at(CERTIFICATE)]
  execFileSync('openssl', [...options, ...(more.length > 0 ? more : ['-nodes'])], { stdio: 'pipe' })
  return { certificate: readFileSync(at(CERTIFICATE), 'utf8'), key: readFileSync(at(KEY), 'utf8') }
}

const pair = makePair(t)
const copyTo = (board: Board, { certificate, key }: Partial<typeof pair>) => {
  const boot = join(board.root, 'boot/firmware')
  if (certificate !== undefined) writeFileSync(join(boot, CERTIFICATE), certificate)
  if (key !== undefined) writeFileSync(join(boot, KEY), key)
  return board
}
const left = (board: Board) => [CERTIFICATE, KEY].filter(name => existsSync(join(board.root, 'boot/firmware', name)))

t.test('both are put in place, and removed from the card, whenever the power fails', async t => {
  for (let cut = 1; ; cut++) {
    const board = copyTo(new Board(t), pair)
    const { isCut } = board.boot(cut)
    board.boot()
    t.equal(board.files[`etc/receiverd/tls/${KEY}`], `100600 ${pair.key}`)
    t.equal(board.files[`etc/receiverd/tls/${CERTIFICATE}`], `100644 ${pair.certificate}`)
    t.same(left(board), [], `cut ${cut}`)
    t.equal(board.errors, '')
    if (!isCut) break
  }
})

t.test('what cannot be served is left, and said', async t => {
  const other = makePair(t)
  const cases: [what: string, Partial<typeof pair>][] = [
    ['no key', { certificate: pair.certificate }],
    ['no certificate', { key: pair.key }],
    ['the key of another', { certificate: pair.certificate, key: other.key }],
    ['a passphrase', makePair(t, '-passout', 'pass:secret')],
    ['not PEM', { certificate: 'garbage', key: pair.key }],
    ['too large', { certificate: pair.certificate + '\n'.repeat(70_000), key: pair.key }],
  ]
  for (const [what, files] of cases) {
    const board = copyTo(new Board(t), files).insert('hostname=lobby-2\n')
    t.equal(board.boot().status, 0)
    t.match(board.errors, /^Not used, because of:\n\ncertificate\.pem and key\.pem: must be a certificate in PEM/, what)
    t.same(left(board).length, Object.keys(files).length)
    t.notOk(existsSync(join(board.root, 'etc/receiverd/tls', KEY)))
    t.equal(await board.setting('hostname'), 'lobby-2', 'the settings are another thing')
  }
})
