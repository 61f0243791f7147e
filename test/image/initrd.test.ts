/** How the initrd mounts the data partition, with a real file system in place of the card, in whatever state that is. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'
import { NEEDS_ROOT, needs } from '../support/needs.ts'

const SCRIPTS = join(REPOSITORY, 'build/image/initramfs/scripts')
const NO_LOOP = !existsSync('/dev/loop-control') && 'run where there are loop devices'

/** The functions of initramfs-tools, and what they would tell people. */
const FUNCTIONS = `panic() { echo "panic: $*" >>/said; exit 1; }
log_failure_msg() { echo "$*" >>/said; }
resolve_device() { echo "$1"; }
`
/** Programs of the initrd: one looks whether the system can be started. */
const STUBS = {
  'run-init': 'exit 0',
  mount: `if [ -n "$REFUSED" ] && [ "$(cat /slept 2>/dev/null | wc -l)" -lt "$REFUSALS" ] && printf %s "$*" | grep -Eq -- "$REFUSED" && [ "$2" = ext4 -o ! -e /run/receiver-without-data ]; then exit 32; fi
case $4 in *size=20%) set -- -t tmpfs -o "mode=755,size=$MEMORY" tmpfs "$6" ;; esac
exec /usr/bin/mount "$@"`,
  // As with a card that cannot be read.
  e2fsck: `[ "$(cat /slept 2>/dev/null | wc -l)" -ge "$UNREADABLE" ] || exit 8
exec /usr/sbin/e2fsck "$@"`,
  // A card that answers again by then.
  sleep: `echo "$1" >>/slept
if [ "$(cat /slept | wc -l)" = "$HEALED" ]; then cat /whole >/card; fi`,
}
/**
 * A root in a mount namespace of its own, where the card is a loop device. That is chosen outside, where the kernel makes a node
 * for each new one: other tests may take those that exist.
 */
const START = `set -e
cd "$FOLDER"
mount --bind /usr usr
mount -t proc proc proc
mount -t tmpfs tmpfs dev
loop=$(losetup $READ_ONLY --find --show card)
trap 'losetup --detach "$loop"' EXIT
cp -a "$loop" dev/vda4
cp -a /dev/null /dev/zero dev/
# The kernel reports errors for reads beyond the end of the file, because it knows the size of the loop device: here, those of the
# inodes.
truncate -s "$READABLE" card
export rootmnt=/root ROOT=/dev/vda2 init=/sbin/init PATH=/stubs:/usr/sbin:/usr/bin
chroot . sh /scripts/init-bottom/receiver || echo failed >>said
chroot . sh -c "$1"
`

/** Of a card. */
const SIZE = '16M'

type Tree = Readonly<Record<string, string>>

const SETTINGS: Tree = {
  'state/etc/upper/hostname': 'lobby\n',
  'state/etc/upper/machine-id': 'id\n',
  'state/etc/upper/passwd': 'of another system\n',
  'state/var/upper/lib/receiverd/api-key': 'a key\n',
  'state/var/upper/log/journal': 'x'.repeat(100_000),
  'update/trial.json': '{}\n',
  'provisioned/.keep': '',
}

class Device {
  readonly #folder: string

  /** @param data Put on the data partition. */
  constructor(t: Test, data: Tree) {
    const folder = temporaryFolder(t, IN_MEMORY)
    this.#folder = folder
    const write = (name: string, text: string, mode = 0o644) => {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text, { mode })
    }
    for (const path of ['usr', 'proc', 'dev', 'run/initramfs', 'tmp', 'root/data', 'root/var', 'sys/devices/vda/vda2'])
      mkdirSync(join(folder, path), { recursive: true })
    this.sh(
      'ln -s usr/bin usr/sbin usr/lib usr/lib64 .; mkdir -p sys/class/block; ln -s ../../devices/vda/vda2 sys/class/block',
    )
    write('root/etc/hostname', 'delivered\n')
    write('root/etc/passwd', 'of this system\n')
    write('scripts/functions', FUNCTIONS)
    for (const name of ['init-bottom/receiver', 'receiver-reset'])
      write(`scripts/${name}`, readFileSync(join(SCRIPTS, name), 'utf8'))
    for (const [name, text] of Object.entries(STUBS)) write(`stubs/${name}`, `#!/bin/sh\n${text}\n`, 0o755)
    for (const [name, text] of Object.entries(data)) write(`data/${name}`, text)
    this.sh(`mke2fs -q -t ext4 -d data card ${SIZE}`)
  }

  /** Runs commands with the card as the file `card`, while it is mounted nowhere. */
  sh(commands: string): string {
    const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
    return execFileSync('sh', ['-euc', commands], { cwd: this.#folder, env, encoding: 'utf8' })
  }

  /**
   * Starts, and runs commands in the initrd before it hands over to the system.
   * @param card How the card behaves. `refused` is a pattern of the arguments with which the kernel mounts nothing of it, until
   * there were `refusals` pauses.
   * `unreadable` says how often e2fsck cannot read it, and `healed` after how many pauses all its blocks can be read, which are
   * in the file `whole`; 0 for always. Until then, `readable` of it can be read. `isReadOnly` is true for one that refuses all
   * writes. `memory` is the size of the tmpfs that takes its place.
   * @returns the messages, and the commands' output.
   */
  boot(
    commands: string,
    {
      refused = '',
      refusals = 100,
      unreadable = 0,
      healed = 0,
      readable = SIZE,
      isReadOnly = false,
      memory = '20%',
    } = {},
  ): { readonly said: string; readonly printed: string } {
    this.sh('rm -rf run said slept && mkdir -p run/initramfs && : >said')
    const env = {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      FOLDER: this.#folder,
      REFUSED: refused,
      REFUSALS: String(refusals),
      UNREADABLE: String(unreadable),
      HEALED: String(healed),
      READABLE: readable,
      MEMORY: memory,
      READ_ONLY: isReadOnly ? '--read-only' : '',
    }
    const start = ['--mount', '--propagation', 'private', 'sh', '-c', START, 'sh', commands]
    const printed = execFileSync('unshare', start, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    return { said: readFileSync(join(this.#folder, 'said'), 'utf8'), printed }
  }
}

const LOOK = `cat /root/etc/hostname /root/etc/passwd; cat /root/var/lib/receiverd/api-key 2>/dev/null || echo no key
stat -f -c %T /root/data; cat /run/receiver-without-data 2>/dev/null || true`
const AS_DELIVERED = 'delivered\nof this system\nno key\n'

t.test('the data partition', { skip: NEEDS_ROOT || needs('debugfs') || NO_LOOP }, async t => {
  t.test('settings are over those of the system, whose users are its own', async t => {
    const device = new Device(t, SETTINGS)
    t.same(device.boot(LOOK), { said: '', printed: 'lobby\nof this system\na key\next2/ext3\n' })
    device.boot('echo kept >/root/etc/new')
    t.same(device.boot('cat /root/etc/new'), { said: '', printed: 'kept\n' })
  })

  const { 'state/etc/upper/hostname': _, ...rest } = SETTINGS
  const { 'state/etc/upper/machine-id': __, 'state/etc/upper/passwd': ___, ...withoutEtc } = rest
  const keyless = Object.fromEntries(Object.entries(withoutEtc).filter(([path]) => !path.startsWith('state/')))
  const DAMAGED: readonly (readonly [what: string, data: Tree, printed: string, kept: string])[] = [
    [
      'a file in place of the folder of /etc',
      { ...withoutEtc, 'state/etc': 'noise' },
      'delivered\nof this system\na key\next2/ext3\n',
      'etc.1',
    ],
    [
      'a file in place of what is mounted',
      { ...withoutEtc, 'state/etc/upper': 'noise' },
      'delivered\nof this system\na key\next2/ext3\n',
      'etc.1/upper',
    ],
    ['a file in place of all settings', { ...keyless, state: 'noise' }, `${AS_DELIVERED}ext2/ext3\n`, 'state.1'],
  ]
  for (const [what, data, printed, kept] of DAMAGED)
    t.test(`${what} is set aside, and kept`, async t => {
      const device = new Device(t, data)
      const first = device.boot(`${LOOK}; echo new >/root/etc/hostname`)
      t.equal(first.printed, printed)
      t.match(
        first.said,
        /^\/data\/state\S* is damaged, and kept as \/data\/damaged\/\w+\.1: the receiver starts without these settings\n$/,
      )
      const next = device.boot(
        `head -n 1 /root/etc/hostname; cat /root/data/damaged/${kept}; stat -c %a /root/data/damaged`,
      )
      t.same(next, { said: '', printed: 'new\nnoise700\n' }, 'and what is set then stays')
    })

  t.test('settings that cannot be mounted at first are not set aside', async t => {
    const device = new Device(t, SETTINGS)
    const look = `${LOOK}; cat /slept`
    const refused = 'upperdir=/root/data/state/etc'
    for (const pauses of [[1], [1, 4], [1, 4, 16]])
      t.same(device.boot(look, { refused, refusals: pauses.length }), {
        said: '',
        printed: `lobby\nof this system\na key\next2/ext3\n${pauses.join('\n')}\n`,
      })
    t.match(device.boot(look, { refused, refusals: 4 }).said, 'is damaged, and kept as')
  })

  t.test('nothing is set aside by a version on trial: the other one needs it after a rollback', async t => {
    const refused = 'upperdir=/root/data/state/etc'
    const { 'update/trial.json': _, ...settings } = SETTINGS
    const [stays, isAside] = [/^the data partition cannot be mounted over/, /is damaged, and kept as/]
    for (const [what, record, said] of [
      ['a trial of A, in A', { 'update/trial.json': '{"slot":"A","version":"2.0.0"}\n' }, stays],
      ['a trial of B', { 'update/trial.json': '{"slot":"B","version":"2.0.0"}\n' }, isAside],
      ['a trial of A that is over', { 'update/trial.json': '{"slot":"A","version":"2.0.0","isGood":true}\n' }, isAside],
      ['a record that cannot be read', { 'update/trial.json/folder': '' }, stays],
    ] as const) {
      const device = new Device(t, { ...settings, ...record })
      t.match(device.boot(LOOK, { refused, refusals: 4 }).said, said, what)
    }
  })

  t.test('a kernel that cannot mount it leaves it as it is, for the other system, and starts with a copy', async t => {
    const device = new Device(t, SETTINGS)
    const { said, printed } = device.boot(LOOK, { refused: 'overlay' })
    t.equal(printed, 'lobby\nof this system\na key\ntmpfs\ncannot be mounted over /etc and /var\n', 'at its address')
    t.match(said, /nothing that is set is kept/)
    t.equal(device.boot(LOOK, { refused: 'lowerdir=/root/var' }).printed, printed, 'all of it or nothing')
    t.same(device.boot(LOOK), { said: '', printed: 'lobby\nof this system\na key\next2/ext3\n' })
  })

  t.test('damage that e2fsck leaves to a person is mended, because nobody can log in', async t => {
    const device = new Device(t, SETTINGS)
    device.sh("printf 'clri /state/var/upper/log\\nssv state 2\\n' | debugfs -w -f - card >/dev/null 2>&1")
    t.equal(device.sh('e2fsck -p card >/dev/null 2>&1 || echo $?'), '4\n')
    const { said, printed } = device.boot(`${LOOK}; echo new >/root/etc/hostname`)
    t.equal(printed, 'lobby\nof this system\na key\next2/ext3\n')
    t.match(said, /the data partition is damaged: e2fsck\(8\) mends it, and some settings may be lost/)
    t.same(device.boot('cat /root/etc/hostname'), { said: '', printed: 'new\n' }, 'it is used as before')
  })

  t.test('a card that cannot be read at first keeps its settings', async t => {
    const device = new Device(t, SETTINGS)
    const look = `${LOOK}; cat /slept`
    const printed = 'lobby\nof this system\na key\next2/ext3\n'
    t.same(device.boot(look, { unreadable: 1 }), { said: '', printed: `${printed}1\n` })
    t.same(device.boot(look, { unreadable: 3 }), { said: '', printed: `${printed}1\n4\n16\n` })
    t.equal(
      device.boot(look, { unreadable: 4 }).printed,
      `${printed.replace('ext2/ext3', 'tmpfs')}is damaged, and e2fsck(8) cannot mend it\n1\n4\n16\n`,
      'a copy of them, if e2fsck alone cannot read it',
    )
    t.equal(device.boot(look, { refused: 'ext4' }).printed, `${AS_DELIVERED}tmpfs\ncannot be mounted\n1\n4\n16\n`)
  })

  t.test('blocks that cannot be read are written over only in the last attempt', async t => {
    const device = new Device(t, SETTINGS)
    const look = `${LOOK}; cat /slept`
    device.sh('cp card whole')
    for (const pauses of [[1], [1, 4], [1, 4, 16]])
      t.same(device.boot(look, { healed: pauses.length, readable: '80K' }), {
        said: '',
        printed: `lobby\nof this system\na key\next2/ext3\n${pauses.join('\n')}\n`,
      })
    const { said } = device.boot(look, { healed: 4, readable: '80K' })
    t.match(said, /e2fsck\(8\) mends it/, 'the receiver of a worn card starts')
  })

  t.test('a card that refuses writes keeps its settings, and none that are made then', async t => {
    const device = new Device(t, SETTINGS)
    // As after a power cut: its journal has yet to be replayed.
    device.sh("printf 'ssv state 0\\nfeature needs_recovery\\n' | debugfs -w -f - card >/dev/null 2>&1")
    const { said, printed } = device.boot(`${LOOK}; cat /root/etc/machine-id; echo new >/root/etc/hostname`, {
      isReadOnly: true,
    })
    t.match(said, /nothing that is set is kept/)
    t.equal(printed, 'lobby\nof this system\na key\ntmpfs\nis damaged, and e2fsck(8) cannot mend it\nid\n')
    t.equal(device.boot(LOOK).printed, 'lobby\nof this system\na key\next2/ext3\n')
    const reset = new Device(t, { ...SETTINGS, 'orders/factory-reset': 'keep-card\n' })
    t.match(reset.boot(LOOK, { isReadOnly: true }).printed, AS_DELIVERED, 'but not those that somebody has given up')
  })

  t.test('of a card with files that cannot be read, all others are rescued, and none is cut short', async t => {
    const torn = { 'state/etc/upper/torn file': 'x', 'state/var/upper/lib/receiverd/torn': 'x' }
    const device = new Device(t, { ...SETTINGS, ...torn, 'state/var/upper/lib/large': 'x'.repeat(1_000_000) })
    // Their blocks, in the extent of the inode.
    for (const file of Object.keys(torn)) device.sh(`debugfs -w -R 'sif "/${file}" block[5] 16000' card 2>/dev/null`)
    const look = `${LOOK}; find /root/data/state -name 'torn*' -o -name large | sort`
    const [kept, reason] = ['lobby\nof this system\na key\ntmpfs\n', 'is damaged, and e2fsck(8) cannot mend it\n']
    const worn = { unreadable: 4, readable: '15M' }
    const { said, printed } = device.boot(look, worn)
    t.equal(printed, `${kept}${reason}/root/data/state/var/upper/lib/large\n`)
    for (const file of Object.keys(torn)) t.match(said, `/data/${file} cannot be copied`)
    device.sh(`truncate -s ${SIZE} card`)
    t.equal(device.boot(look, { ...worn, memory: '256K' }).printed, `${kept}${reason}`, 'as many as there is room for')
  })

  t.test('data that is no file system is not made one', async t => {
    const device = new Device(t, SETTINGS)
    device.sh('head -c 16M /dev/urandom >card')
    const before = device.sh('sha256sum card')
    t.equal(device.boot(LOOK).printed, `${AS_DELIVERED}tmpfs\nis damaged, and e2fsck(8) cannot mend it\n`)
    t.equal(device.sh('sha256sum card'), before)
  })

  t.test('a factory reset of a full one', async t => {
    const device = new Device(t, {
      ...SETTINGS,
      'state/var/upper/lib/receiverd/card': 'memory\n',
      'damaged/etc.1': 'older settings\n',
      // receiverd's reserve for this.
      'orders/factory-reset.reserve': '0'.repeat(65_536),
    })
    const full =
      device.boot(`cat /dev/zero >/root/data/update/bundle; n=0; while echo $n >/root/data/update/$n; do n=$((n + 1)); done 2>/dev/null; sync
stat -f -c %a /root/data; cd /root/data/orders; (echo keep-card >factory-reset) 2>/dev/null || rm factory-reset.reserve
echo keep-card >factory-reset; ls`)
    t.equal(full.printed, '0\nfactory-reset\n')
    const { said, printed } = device.boot(`${LOOK}; cat /root/etc/machine-id /root/var/lib/receiverd/card.reset
ls /root/data/orders /root/data/provisioned; ls /root/data`)
    t.equal(said, '')
    t.equal(
      printed,
      `${AS_DELIVERED}ext2/ext3\nid\nmemory\n/root/data/orders:\n\n/root/data/provisioned:\nlost+found\norders\nprovisioned\nstate\nupdate\n`,
    )
  })
})
