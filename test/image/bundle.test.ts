/** Bundles of small systems: who signs, whom receivers trust, and how one authority takes the place of another. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const skip = needs('rauc', 'mksquashfs', 'debugfs', 'openssl')
/** At least a block compressed, or RAUC refuses it. */
const CONTENT = readFileSync(process.execPath).subarray(0, 100_000)
const KEYRING = 'usr/lib/rauc/keyring.pem'
const TEST_KEYS = 'usr/lib/receiver/test-keys'

type Settings = Readonly<Record<string, string>>

const folder = temporaryFolder(t)
const at = (...names: string[]) => join(folder, ...names)
const env = {
  PATH: `${process.env.PATH}:/usr/sbin:/sbin`,
  // Used by `make` without KEY, CERT and KEYRING.
  KEYS: at('keys'),
  BOARD: 'virt',
  VERSION: '1.1.0',
  LEVEL: '1',
  SOURCE_DATE_EPOCH: '1700000000',
}
const script = (name: string, args: readonly string[], settings: Settings = {}) =>
  spawnSync(join(REPOSITORY, 'build/image', name), args, {
    cwd: REPOSITORY,
    env: { ...env, ...settings },
    encoding: 'utf8',
  })

function succeed(...args: Parameters<typeof script>) {
  const { status, stderr } = script(...args)
  if (status !== 0) throw new Error(`${args[0]}: ${stderr}`)
}

/** The bundle of a system that trusts the authorities in KEYRING. */
function bundle(name: string, settings: Settings = {}, keyring: Settings = {}): string {
  const root = at(`${name}.root`)
  mkdirSync(root)
  writeFileSync(join(root, 'content'), CONTENT)
  succeed('keyring.sh', [root], keyring)
  succeed('slot.sh', [root, at(`${name}.ext4`)])
  succeed('bundle.sh', [at(`${name}.ext4`), at(`${name}.raucb`)], settings)
  return at(`${name}.raucb`)
}

/** RAUC's report on a bundle, on a receiver with this keyring. */
function info(file: string, keyring: string) {
  const args = ['info', `--keyring=${keyring}`, '--output-format=json', file]
  const { status, stdout, stderr } = spawnSync('rauc', args, { env, encoding: 'utf8' })
  return status === 0 ? JSON.parse(stdout) : stderr
}

/** An authority and its signer. */
function authority(name: string) {
  succeed('keys.sh', [at(name), name])
  return { ca: at(name, 'ca.pem'), signer: { KEY: at(name, 'sign.key'), CERT: at(name, 'sign.pem') } }
}

t.test('keys are nobody else’s to read, and stay the same', { skip }, async t => {
  succeed('keys.sh', [at('once')])
  const read = () => readdirSync(at('once')).map(name => [name, readFileSync(at('once', name), 'utf8')])
  const first = read()
  t.equal(statSync(at('once')).mode & 0o777, 0o700)
  for (const [name = ''] of first) t.equal(statSync(at('once', name)).mode & 0o777, 0o600, name)
  succeed('keys.sh', [at('once')])
  t.match(script('keys.sh', [at('once'), 'Somebody']), {
    status: 0,
    stderr: /once has keys already, and they are kept/,
  })
  t.same(read(), first)
  mkdirSync(at('empty'))
  t.match(script('keys.sh', [at('empty')]), { status: 1, stderr: /empty exists, and has no keys: remove it, or/ })
  t.match(script('keys.sh', []), { status: 2, stderr: /DIR is missing: build\/image\/keys\.sh DIR \[NAME\]/ })
})

t.test('without keys, throw-away ones sign, and the system says so', { skip }, async t => {
  const file = bundle('default')
  t.match(info(file, at('keys/ca.pem')), {
    compatible: 'receiver-virt',
    version: '1.1.0',
    images: [{ rootfs: { filename: 'rootfs.ext4' } }],
  })
  t.ok(readFileSync(file).includes('\nverity-hash='), 'each block is checked when it is read')
  t.ok(existsSync(at('default.root', TEST_KEYS)))
  t.equal(readFileSync(at('default.root', KEYRING), 'utf8'), readFileSync(at('keys/ca.pem'), 'utf8'))
  t.equal(statSync(at('default.root', KEYRING)).mode & 0o777, 0o644)
  const stranger = authority('stranger')
  t.match(info(file, stranger.ca), /signature verification failed/)

  // A bit of the signed part: RAUC compares the rest while it reads it.
  const damaged = readFileSync(file)
  const position = damaged.lastIndexOf('receiver-virt')
  damaged[position] = (damaged[position] ?? 0) ^ 1
  writeFileSync(at('damaged.raucb'), damaged)
  t.match(info(at('damaged.raucb'), at('keys/ca.pem')), /signature verification failed|digest failure|invalid/i)
})

t.test('with keys, the system trusts these alone', { skip }, async t => {
  const maker = authority('maker')
  const file = bundle('made', { ...maker.signer, KEYRING: maker.ca, BOARD: 'raspberry-pi' }, { KEYRING: maker.ca })
  t.match(info(file, maker.ca), { compatible: 'receiver-raspberry-pi' })
  t.notOk(existsSync(at('made.root', TEST_KEYS)))
  t.equal(readFileSync(at('made.root', KEYRING), 'utf8'), readFileSync(maker.ca, 'utf8'))
  const { status, stderr } = script('bundle.sh', [at('made.ext4'), at('wrong.raucb')], {
    ...maker.signer,
    KEYRING: authority('other').ca,
  })
  t.equal(status, 1, 'a bundle that no receiver would take is not made')
  t.match(stderr, /^CERT=\S+ is not trusted by KEYRING=\S+: unable to get local issuer certificate$/m)
  t.same(
    readdirSync(folder).filter(name => name.startsWith('wrong')),
    [],
  )
})

t.test('mistakes are found before anything is built', { skip }, async t => {
  const { ca, signer } = authority('careful')
  writeFileSync(at('both.pem'), readFileSync(ca, 'utf8') + readFileSync(signer.KEY, 'utf8'))
  const cases: [settings: Settings, refused: RegExp][] = [
    [{ VERSION: '1.1' }, /^VERSION=1\.1 is not a version as in SemVer/],
    [{ VERSION: '1.01.0' }, /^VERSION=1\.01\.0 is not/],
    [{ KEY: signer.KEY }, /^make bundle takes both KEY= and CERT=/],
    [signer, /^with KEY= and CERT=, make bundle needs KEYRING=/],
    [{ KEYRING: ca }, /^with KEYRING=, make bundle needs KEY= and CERT=/],
    [{ ...signer, KEYRING: ca, KEY: at('none') }, /^KEY=\S+ cannot be read/],
    [{ ...signer, KEYRING: ca, CERT: at('none') }, /^CERT=\S+ cannot be read/],
    [{ ...signer, KEYRING: ca, CERT: '/etc/passwd' }, /^CERT=\S+ is not a certificate in PEM/],
    [{ ...signer, KEYRING: ca, KEY: ca }, /^KEY=\S+ is not a private key in PEM/],
    [{ ...signer, KEYRING: ca, KEY: authority('another').signer.KEY }, /^KEY=\S+ does not belong to CERT=/],
    [{ ...signer, KEYRING: authority('foreign').ca }, /^CERT=\S+ is not trusted by KEYRING=\S+: unable to get/],
    [{ ...signer, KEYRING: at('none') }, /^KEYRING=\S+ is not a file of certificates in PEM/],
    [{ ...signer, KEYRING: at('both.pem') }, /^KEYRING=\S+ has a private key/],
  ]
  for (const [settings, refused] of cases) {
    const { status, stderr } = script('bundle.sh', ['check'], settings)
    t.equal(status, 1, `${refused}`)
    t.match(stderr, refused)
    t.equal(stderr.split('\n').length, 2, 'one line')
  }
  for (const settings of [
    { VERSION: '1.1.0-rc.1+5' },
    { ...signer, KEYRING: ca, KEY: 'pkcs11:token=maker;object=sign' },
  ])
    t.match(script('bundle.sh', ['check'], settings), { status: 0, stderr: '' })
})

t.test('a new authority takes the place of an old one, as build/image/README.md says', { skip }, async t => {
  const old = authority('old')
  const fresh = authority('fresh')
  const both = at('both-authorities.pem')
  writeFileSync(both, readFileSync(old.ca, 'utf8') + readFileSync(fresh.ca, 'utf8'))
  /** The keyring that a bundle brings, read from the system in it. */
  const keyringIn = (file: string) => {
    const system = `${file}.system`
    execFileSync('unsquashfs', ['-dest', system, file], { env, stdio: 'pipe' })
    const keyring = execFileSync('debugfs', ['-R', `cat /${KEYRING}`, join(system, 'rootfs.ext4')], {
      env,
      stdio: 'pipe',
    })
    writeFileSync(`${file}.pem`, keyring)
    return `${file}.pem`
  }

  const step = bundle('1.1.0', { ...old.signer, KEYRING: both }, { KEYRING: both })
  const next = bundle('1.2.0', { ...fresh.signer, KEYRING: both, VERSION: '1.2.0' }, { KEYRING: fresh.ca })
  const forged = bundle('1.3.0', { ...old.signer, KEYRING: old.ca, VERSION: '1.3.0' }, { KEYRING: old.ca })

  t.match(info(step, old.ca), { version: '1.1.0' }, 'every receiver takes the first step')
  t.type(info(next, old.ca), 'string', 'and none can leave it out')
  t.match(info(next, keyringIn(step)), { version: '1.2.0' })
  t.match(info(forged, keyringIn(step)), { version: '1.3.0' }, 'until then, the old signer is trusted')
  t.match(info(forged, keyringIn(next)), /signature verification failed/, 'then no longer')
})
