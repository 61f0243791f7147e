/** The first boot gives the device a name of its own, whenever the power is cut. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { temporaryFolder } from '../support/folder.ts'

const SCRIPT = fileURLToPath(new URL('../../build/image/overlay/usr/local/sbin/own-name', import.meta.url))
const NOT_HERE = (process.getuid?.() !== 0 || !existsSync('/usr/bin/systemd-id128')) && 'run as root, with systemd'

/**
 * Before each command, the disk is copied as a power cut would leave it: with what has reached it. Some other program has
 * just synced a file of its own, which brings all renames to the disk, but no contents of other files.
 */
const BEFORE_EACH = `cuts=0
snapshot() {
  [ "$BASH_SUBSHELL" = 0 ] || return 0
  echo "$cuts" >/etc/other
  sync /etc/other
  cp "$FOLDER/disk" "$FOLDER/cut-$cuts"
  cuts=$((cuts + 1))
}
trap snapshot DEBUG
trap snapshot EXIT
`

t.test('the power is cut at any command of own-name', { skip: NOT_HERE }, async t => {
  const folder = temporaryFolder(t)
  const at = (name: string) => join(folder, name)
  /** Runs commands with the /etc of a disk in place of the host's. */
  const within = (disk: string, commands: string, env: NodeJS.ProcessEnv = {}) =>
    execFileSync(
      'unshare',
      [
        '--mount',
        '--uts',
        'sh',
        '-euc',
        `mount -o loop ${disk} $FOLDER/mount; mount --bind $FOLDER/mount /etc; ${commands}`,
      ],
      { env: { ...process.env, ...env, FOLDER: folder }, encoding: 'utf8' },
    )
  mkdirSync(at('mount'))
  mkdirSync(at('etc'))
  writeFileSync(at('etc/machine-id'), '0123456789abcdef0123456789abcdef\n')
  writeFileSync(at('etc/hosts'), '127.0.0.1 localhost\n127.0.1.1 receiver\n')
  writeFileSync(at('etc/uxplayrc'), 'vs waylandsink\n', { mode: 0o640 })
  writeFileSync(at('hook'), BEFORE_EACH)
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-d', at('etc'), at('disk'), '8M'])
  within(at('disk'), `bash -o functrace ${SCRIPT}`, { BASH_ENV: at('hook') })

  const cuts = readdirSync(folder).filter(name => name.startsWith('cut-'))
  t.ok(cuts.length > 10, `${cuts.length} cuts`)
  const show = 'for f in hostname hosts uxplayrc; do echo "== $f"; cat "/etc/$f"; stat -c %a "/etc/$f"; done'
  const name = /receiver-[\da-f]{6}/
  const whole = within(at('disk'), show)
  t.match(whole, name)
  const [own = ''] = name.exec(whole) ?? []
  const expected = `== hostname
${own}
644
== hosts
127.0.0.1 localhost
127.0.1.1 ${own}
644
== uxplayrc
vs waylandsink
# The device's name: ${own}
n ${own}
640
`
  t.equal(whole, expected)
  for (const cut of cuts)
    t.equal(within(at(cut), `[ -e /etc/hostname ] || ${SCRIPT}; ${show}`), expected, `the boot after ${cut}`)
})
