/** The image's settings for the journal, in the real systemd-journald. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const SETTINGS = '/etc/systemd/journald.conf.d/50-receiver.conf'
const FOLDER = '/var/log/journal'
const MIB = 1024 ** 2
/** The record with which journald says what it may use (sd-messages.h). */
const USAGE = 'MESSAGE_ID=ec387f577b844b8fa948f33cad9a75e6'

t.test('the log outlives a power cut, within bounds', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, {
    files: { [SETTINGS]: readFileSync(join(REPOSITORY, 'build/image/overlay', SETTINGS), 'utf8') },
  })
  // As on an image, and on a device whose data partition is older than these settings.
  await rig.shell(`rm -rf ${FOLDER}`)
  await rig.powerOff()
  await rig.boot()
  t.equal(await rig.shell(`stat -c '%a %U:%G' ${FOLDER}`), '2755 root:systemd-journal\n')
  const [usage] = (await rig.journal('--boot', USAGE)).slice(-1)
  t.match(usage, { MAX_USE: `${64 * MIB}`, DISK_KEEP_FREE: `${32 * MIB}` })

  // After a power cut, the file that was being written is set aside as large as it is.
  const [bytes] = (await rig.shell(`du --apparent-size --block-size=1 ${FOLDER}/*/system.journal`)).split('\t', 1)
  t.ok(Number(bytes) <= (64 * MIB) / 32, `${bytes}: room for 32 power cuts`)

  await rig.shell('logger --tag witness "before the power cut"; journalctl --sync')
  await rig.cutPower()
  await rig.boot()
  t.match(await rig.journal('--identifier=witness'), [{ MESSAGE: 'before the power cut' }])
})
