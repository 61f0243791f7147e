/** The files that an image adds, as they are in a checkout: links may have become files on the way here. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'

const IMAGE = join(REPOSITORY, 'build/image')
const UNIT = /etc\/systemd\/system\/[^/]+\.(service|socket|target|path|timer)$/

const overlays = ['overlay', ...readdirSync(join(IMAGE, 'boards')).map(board => `boards/${board}/overlay`)]
const files = overlays
  .filter(overlay => statSync(join(IMAGE, overlay), { throwIfNoEntry: false }))
  .flatMap(overlay =>
    readdirSync(join(IMAGE, overlay), { recursive: true }).map(path => join(IMAGE, overlay, `${path}`)),
  )
  .filter(path => statSync(path).isFile())

t.test('a unit is a unit, or empty, which masks it (systemd.unit(5))', async t => {
  const units = files.filter(path => UNIT.test(path))
  t.ok(units.length >= 3)
  for (const path of units) t.match(readFileSync(path, 'utf8'), /^$|^(#.*\n)*\[/, path.slice(IMAGE.length))
})

t.test('everybody may read them, whatever the umask is, and was when the checkout was made', async t => {
  const folder = temporaryFolder(t)
  const sh = (commands: string) =>
    execFileSync('sh', ['-euc', `umask 077; ${commands}`], { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
  sh(
    'mkdir -p from/etc/folder from/srv to/srv; chmod 750 to/srv; cd from; echo >"etc/folder/a file"; echo >etc/program',
  )
  sh(`chmod u+x from/etc/program; ${join(IMAGE, 'copy.sh')} from to`)
  t.equal(
    sh('cd to; find * -printf "%m %p\\n" | sort'),
    '644 etc/folder/a file\n750 srv\n755 etc\n755 etc/folder\n755 etc/program\n',
    'a folder that is there stays as it is',
  )
  // Without root, the script that all others source ends early.
  t.match(sh(`id() { echo 1000; }; trap 'umask; exit 0' EXIT; cd ${REPOSITORY}; . build/image/binfmt.sh`), '0022')
})

t.test('systemd restarts a system that hangs', async t => {
  const texts = files.filter(path => path.endsWith('.conf')).map(path => readFileSync(path, 'utf8'))
  t.equal(texts.filter(text => /^\[Manager\]\nRuntimeWatchdogSec=15$/m.test(text)).length, 1)
})

t.test('the daemon of Wi-Fi is restarted again and again, which its own unit leaves out', async t => {
  const dropIn = join(IMAGE, 'boards/raspberry-pi/overlay/etc/systemd/system/wpa_supplicant@.service.d/restart.conf')
  const lines = readFileSync(dropIn, 'utf8').split('\n')
  const settings = ['[Unit]', 'StartLimitIntervalSec=0', '[Service]', 'Restart=always', 'RestartSec=2']
  t.same(
    lines.filter(line => line !== '' && !line.startsWith('#')),
    settings,
  )
})

t.test('units are wanted by drop-ins, because systemd takes nothing but links from folders of wants', async t => {
  t.same(
    files.filter(path => /\.(wants|requires)\//.test(path)),
    [],
  )
})
