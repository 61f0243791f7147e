/** The script that tells systemd whether the system that runs is on trial, and what its units do with the answer. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { Files } from '../../hal/files/files.ts'
import { type Trial, TrialRecords } from '../../src/update/trial.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'

const SCRIPT = join(REPOSITORY, 'build/package/judge')
const UPDATE = '/data/update'
const JUDGED = 42

/** The exit status of each verb, where the programs that it calls are stubs. `left`: the attempts of A and of B. */
async function statuses(
  t: Test,
  cmdline: string,
  trial: string | Trial | undefined,
  { fileSystem = 'ext2/ext3', left = '', canWrite = true } = {},
) {
  const root = temporaryFolder(t, IN_MEMORY)
  for (const folder of ['proc', 'bin', UPDATE]) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'proc/cmdline'), `${cmdline}\n`)
  const at = join(root, UPDATE)
  if (typeof trial === 'string') writeFileSync(join(at, 'trial.json'), trial)
  else if (trial) await new TrialRecords(new Files(at)).begin(trial)
  const stub = (name: string, text: string) =>
    writeFileSync(join(root, 'bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  stub('receiverd', `[ "$*" = 'update judge' ] && exit ${JUDGED}`)
  stub('stat', `[ "$3" = "${root}/data" ] && echo ${fileSystem}`)
  const [a = '', b = ''] = left.split(' ')
  writeFileSync(join(root, 'BOOT_A_LEFT'), `${a}\n`)
  writeFileSync(join(root, 'BOOT_B_LEFT'), `${b}\n`)
  stub('fw_printenv', `[ "$1" = -n ] && cat "${root}/$2"`)
  stub('fw_setenv', canWrite ? `echo "$2" >"${root}/$1"` : 'exit 1')
  const env = { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, RECEIVERD_UPDATE: UPDATE }
  return ['trial', 'late', 'over'].map(verb => spawnSync(SCRIPT, [verb, root], { env, stdio: 'ignore' }).status)
}

const CMDLINE = 'root=PARTUUID=1-2 ro rootwait panic=10 rauc.slot=B console=ttyAMA0'
const EXPECT = { units: ['receiverd.service'], screen: true, interfaces: ['eth0'] }
/** As receiverd writes it. */
const trial = (slot: string, more = {}): Trial => ({ slot, version: '1.1.0', from: '1.0.0', expect: EXPECT, ...more })

t.test('on trial is the slot that runs, if the record is about it', async t => {
  const NOT: readonly number[] = [0, 0, 0]
  t.same(await statuses(t, CMDLINE, trial('B')), [JUDGED, 1, 1])
  t.same(await statuses(t, CMDLINE, trial('A')), NOT, 'the version before runs again')
  t.same(await statuses(t, CMDLINE, undefined), NOT)
  t.same(await statuses(t, CMDLINE, ''), NOT)
  t.same(await statuses(t, CMDLINE, '{}'), NOT)
  t.same(await statuses(t, CMDLINE, trial('')), NOT)
  t.same(await statuses(t, 'quiet', trial('B')), NOT)
  t.same(await statuses(t, 'quiet rauc.slot=', trial('')), NOT)
  t.same(await statuses(t, CMDLINE, trial('B', { isGood: true })), [JUDGED, 0, 1], 'good, and not yet marked')
  t.same(await statuses(t, CMDLINE, '{"expect":{}, "slot": "B"'), [JUDGED, 1, 1], 'damaged')
})

t.test('without its data partition, no version is marked as good', async t => {
  for (const fileSystem of ['tmpfs', 'ramfs']) t.same(await statuses(t, CMDLINE, undefined, { fileSystem }), [0, 0, 1])
})

t.test('without its data partition, a version that has not proved good gives way to one that has', async t => {
  const late = async (left: string, fileSystem = 'tmpfs') =>
    (await statuses(t, CMDLINE, undefined, { fileSystem, left }))[1]
  // Hexadecimal, as RAUC writes them.
  t.equal(await late('14 2'), 1)
  t.equal(await late('14 0'), 1)
  t.equal(await late('13 1'), 1)
  t.equal(await late('14 13'), 0, 'good until now')
  t.equal(await late('14 3'), 0)
  t.equal(await late('3 2'), 0, 'neither has proved good, or both have used up their attempts')
  t.equal(await late('0 2'), 0, 'there is no other system')
  t.equal(await late(''), 0, 'without a state')
  t.equal(await late('14 2', 'ext2/ext3'), 0, 'with its data partition, and no trial')
  const stuck = await statuses(t, CMDLINE, undefined, { fileSystem: 'tmpfs', left: '14 2', canWrite: false })
  t.equal(stuck[1], 0, 'on a disk that cannot be written, restarts would never end')
})
