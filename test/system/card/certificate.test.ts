/** A TLS certificate of the owner's, on the card. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { orderReset } from '../../../src/system/factory-reset.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { SEED } from '../../support/random.ts'
import { Board } from './board.ts'

const [CERTIFICATE, KEY] = ['certificate.pem', 'key.pem'] as const
/** A short run tries some of the steps at which the power can fail, others with another SEED. */
const STRIDE = Number(process.env.ROUNDS ?? 0) >= 200 ? 1 : 5
const TLS = 'etc/receiverd/tls'

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
  for (const where of ['service', 'script'] as const)
    for (let n = 1 + (SEED % STRIDE); ; n += STRIDE) {
      const board = copyTo(new Board(t), pair)
      const { isCut } = await board.boot({ [where]: n })
      await board.boot()
      const files = [board.files[`${TLS}/${KEY}`], board.files[`${TLS}/${CERTIFICATE}`], left(board), board.errors]
      t.same(files, [`100600 ${pair.key}`, `100644 ${pair.certificate}`, [], ''], `cut ${n} of the ${where}`)
      if (!isCut) break
    }
})

t.test('a pair of which only the key can be stored leaves the one before in place', async t => {
  const board = copyTo(new Board(t), pair)
  await board.boot()
  const other = makePair(t)
  board.failsToChange = path => path.includes('/.certificate.pem.')
  copyTo(board, other)
  const { log } = await board.boot()
  t.match(log.join('\n'), `warning: receiver.txt: ${CERTIFICATE}, ${KEY}: read-only file system`)
  const placed = () => [KEY, CERTIFICATE].map(name => board.read(`${TLS}/${name}`))
  t.same(placed(), [pair.key, pair.certificate])
  board.failsToChange = () => false
  await board.boot()
  t.same(placed(), [other.key, other.certificate])
})

t.test('a pair that cannot be served is left, and said, and nothing else is taken', async t => {
  const other = makePair(t)
  const cases: [what: string, Partial<typeof pair>, RegExp][] = [
    ['no key', { certificate: pair.certificate }, /^key\.pem: missing; the other one is there$/m],
    ['no certificate', { key: pair.key }, /^certificate\.pem: missing; the other one is there$/m],
    ['the key of another', { certificate: pair.certificate, key: other.key }, /: the key does not belong to/],
    ['a passphrase', makePair(t, '-passout', 'pass:secret'), /: the key is not valid PEM, or has a passphrase$/m],
    [
      'Ed25519',
      makePair(t, '-nodes', '-newkey', 'ed25519'),
      /: browsers refuse a key of this kind: use P-256, P-384 or RSA$/m,
    ],
    [
      'not PEM',
      { certificate: 'garbage', key: pair.key },
      /: the certificate, or one of its chain, is not valid PEM$/m,
    ],
    [
      'too large',
      { certificate: pair.certificate + '\n'.repeat(70_000), key: pair.key },
      /^certificate\.pem: the file is/m,
    ],
  ]
  for (const [what, files, expected] of cases) {
    const board = copyTo(new Board(t), files).insert('hostname=lobby-2\n')
    await board.boot()
    t.match(board.errors, expected, what)
    t.same(left(board).length, Object.keys(files).length)
    t.notOk(existsSync(join(board.root, TLS, KEY)))
    t.not(await board.setting('hostname'), 'lobby-2')
  }
})

t.test('a factory reset does not leave the key, nor one that was set aside', async t => {
  const board = copyTo(new Board(t), pair).insert('hostname=lobby\n')
  await board.boot()
  writeFileSync(join(board.root, TLS, `${KEY}.bad`), pair.key)
  await board.change((_, state) => orderReset(state, false))
  await board.boot()
  t.equal(await board.setting('hostname'), 'lobby')
  t.notMatch(JSON.stringify(board.files), 'PRIVATE KEY')
})
