/** The factory reset that the initrd carries out on an image with overlays, whenever the power is cut. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'

const SCRIPT = join(REPOSITORY, 'build/image/initramfs/scripts/receiver-reset')
const ORDER = 'orders/factory-reset'
const STATE = 'state/var/upper/lib/receiverd'
/** Of this device, whoever owns it. */
const KEPT = { 'state/etc/upper/machine-id': 'id\n', 'update/bundle': 'a bundle' }
const USED = {
  'state/etc/upper/hostname': 'used\n',
  'state/var/upper/log/journal/id/system.journal': 'who mirrored, and when\n',
  [`${STATE}/api-key`]: 'a key\n',
  ...KEPT,
}

type Tree = Readonly<Record<string, string>>

function write(folder: string, files: Tree): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text, { mode: 0o600 })
  }
}

function read(folder: string): Tree {
  const paths = readdirSync(folder, { recursive: true }).map(String)
  const files = paths.filter(path => statSync(join(folder, path)).isFile()).sort()
  return Object.fromEntries(files.map(path => [path, readFileSync(join(folder, path), 'utf8')]))
}

/**
 * A data partition after a reset, with the power cut before each of the script's commands in turn, and never. The script runs only
 * once, and leaves a copy of the partition before each command.
 */
function afterEachCut(t: Test, before: Tree): readonly Tree[] {
  const folder = temporaryFolder(t, IN_MEMORY)
  const at = (name: string) => join(folder, name)
  write(at('data'), before)
  const copy = `set -T; n=0; trap 'n=$((n + 1)); cp -a "$data" "$FOLDER/cut-$n"' DEBUG; . ${SCRIPT}; trap - DEBUG`
  t.equal(run('bash', copy, { data: at('data'), FOLDER: folder }), '')
  const cuts = readdirSync(folder).filter(name => name.startsWith('cut-'))
  t.ok(cuts.length > 5, `${cuts.length} cuts`)
  for (const cut of cuts) if (existsSync(join(at(cut), ORDER))) t.equal(run('sh', `. ${SCRIPT}`, { data: at(cut) }), '')
  return [...cuts, 'data'].map(name => read(at(name)))
}

/** Runs commands, and returns what they said on standard error. */
function run(shell: 'bash' | 'sh', commands: string, env: NodeJS.ProcessEnv): string {
  // Waiting for the disks of this host proves nothing.
  const { stderr } = spawnSync(shell, ['-euc', `sync() { :; }; ${commands}`], {
    env: { ...process.env, ...env },
    // Where its standard input is a socket, bash may read the configuration of interactive shells first.
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  })
  return stderr
}

t.test('settings and key are gone, and all else of the partition stays, and the machine ID', async t => {
  for (const tree of afterEachCut(t, { ...USED, [ORDER]: 'keep-card\nboot\n' })) t.same(tree, KEPT)
})

t.test('a download that has begun is not gone on with, and its address is not kept', async t => {
  const origin = { url: 'https://updates.example/receiver.raucb?token=secret' }
  const record = (members: object) => JSON.stringify({ etag: 'x', bytes: 9, receivedBytes: 8, ...members })
  const torn = { 'update/.bundle.json.receiverd-1': record({ origin }) }
  const before = { ...USED, ...torn, 'update/bundle.json': record({ origin }), [ORDER]: 'keep-card\nboot\n' }
  for (const tree of afterEachCut(t, before)) t.same(tree, KEPT)
  const checked = { 'update/bundle.json': record({ isChecked: true }) }
  for (const tree of afterEachCut(t, { ...USED, ...checked, [ORDER]: 'keep-card\nboot\n' }))
    t.same(tree, { ...KEPT, ...checked })
})

t.test('the memory of what the card gave is kept for receiverd to take it again', async t => {
  const before = { ...USED, [`${STATE}/card`]: 'memory', [ORDER]: 'keep-card\nboot\n' }
  const trees = afterEachCut(t, before)
  t.ok(trees.length > 10)
  for (const tree of trees) t.same(tree, { ...KEPT, [`${STATE}/card.reset`]: 'memory' })
})

t.test('once more before receiverd has run', async t => {
  const before = { ...USED, [`${STATE}/card.reset`]: 'memory', [ORDER]: 'keep-card\nboot\n' }
  for (const tree of afterEachCut(t, before)) t.same(tree, { ...KEPT, [`${STATE}/card.reset`]: 'memory' })
})

t.test('or it is forgotten, also if an earlier reset was cut', async t => {
  const before = { ...USED, [`${STATE}/card`]: 'memory', 'provisioned/card': 'older', [ORDER]: 'forget-card\nboot\n' }
  for (const tree of afterEachCut(t, before)) t.same(tree, KEPT)
})

t.test('nobody but root may read the state that it makes', async t => {
  const data = temporaryFolder(t, IN_MEMORY)
  write(data, { [`${STATE}/card`]: 'memory', [ORDER]: 'keep-card\n' })
  t.equal(run('sh', `umask 022; . ${SCRIPT}`, { data }), '')
  t.equal(statSync(join(data, STATE)).mode & 0o777, 0o700)
  t.equal(statSync(join(data, STATE, 'card.reset')).mode & 0o777, 0o600)
})
