/** Storage that refuses: the service starts, serves what needs no write, and says what it cannot do. */
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const STATE = '/var/lib/receiverd'

/** Puts a folder and its content on a file system of its own, and then as `options` of mount(8) have it. */
async function remount(rig: Rig, folder: string, options: string): Promise<void> {
  await rig.run(['systemctl', 'stop', 'receiverd.service', 'receiverd.socket', 'receiverd-engines.socket'])
  await rig.shell(
    `cp -a ${folder} /run/copy && mount -t tmpfs -o mode=755 storage ${folder} && cp -a /run/copy/. ${folder}`,
  )
  await rig.shell(`mount -o remount,${options} ${folder}`)
  await rig.run(['systemctl', 'start', 'receiverd.socket', 'receiverd-engines.socket', 'receiverd.service'])
}

const statusOf = async (rig: Rig) =>
  (await (await rig.fetch('/status')).json()) as { storage: { readOnly: boolean }; keyStored: boolean }

/** Reads, streams and moderates. */
async function serves(t: Test, rig: Rig): Promise<void> {
  await eventually(async () => (await rig.fetch('/system').catch(() => undefined))?.status === 200)
  const stream = await rig.stream()
  stream.close()
  t.equal((await rig.fetch('/sessions')).status, 200)
  await rig.shell('nohup receiverd session --protocol demo --name Ann -- sleep 60 >/dev/null 2>&1 &')
  await eventually(async () => {
    const { sessions } = (await (await rig.fetch('/sessions')).json()) as { sessions: unknown[] }
    return sessions.length === 1
  })
  t.equal((await rig.shell('systemctl is-active receiverd')).trim(), 'active')
}

t.test('a state directory that has become read-only', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  await remount(rig, STATE, 'ro')
  await serves(t, rig)
  t.match(await statusOf(rig), { storage: { readOnly: true }, keyStored: true })
  const { value } = await rig.system()
  const answer = await rig.patch({ deviceName: 'Next' })
  t.equal(answer.status, 500)
  const { detail } = (await answer.json()) as { detail: string }
  t.match(detail, 'read-only file system (EROFS)')
  t.notMatch(detail, 'undone', 'nothing was written')
  t.same((await rig.system()).value, value)
  t.equal((await rig.fetch('/api-key', { method: 'POST' })).status, 500)
})

t.test('a read-only one without a key: the key from outside lasts for the run', { skip: NO_RIG }, async t => {
  const key = 'fleet-key_0001.of~room.4'
  const rig = await startRig(t, { files: { '/etc/credstore/receiverd.api-key': `${key}\n` } })
  await rig.shell(`rm ${STATE}/*`)
  await remount(rig, STATE, 'ro')
  await serves(t, rig)
  t.match(await statusOf(rig), { storage: { readOnly: true }, keyStored: false })
  t.match(await rig.shell('journalctl --quiet --unit receiverd --output cat'), 'lasts until the service restarts')
  await rig.shell(`mount -o remount,rw ${STATE}`)
  await rig.restart()
  t.match(await statusOf(rig), { storage: { readOnly: false }, keyStored: true })
})

t.test('a full one', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  await remount(rig, STATE, 'size=4k')
  await serves(t, rig)
  t.match(await statusOf(rig), { storage: { readOnly: false }, keyStored: true })
  const answer = await rig.patch({ deviceName: 'Next' })
  t.equal(answer.status, 507)
  t.notMatch(((await answer.json()) as { detail: string }).detail, 'undone')
})

t.test('/etc on a read-only root', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  await remount(rig, '/etc', 'ro')
  await serves(t, rig)
  for (const patch of [{ deviceName: 'Next' }, { hostname: 'next' }, { timezone: 'Asia/Tokyo' }]) {
    const answer = await rig.patch(patch)
    t.equal(answer.status, 500, JSON.stringify(patch))
    const { detail } = (await answer.json()) as { detail: string }
    t.match(detail, 'read-only file system (EROFS)')
    t.notMatch(detail, 'undone', 'nothing was written')
  }
  t.equal((await rig.fetch('/api-key', { method: 'POST' })).status, 200, 'the state directory takes it')
})

t.test('a state directory of somebody else', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  await rig.shell(`chown -R nobody:nogroup ${STATE} && chmod 700 ${STATE}`)
  await rig.restart()
  await serves(t, rig)
  t.equal((await rig.patch({ deviceName: 'Next' })).status, 200)
})

t.test('a factory reset that it refuses waits for a later start', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  t.equal((await rig.patch({ deviceName: 'Changed' })).status, 200)
  const { key } = rig
  await rig.shell(`touch ${STATE}/factory-reset`)
  await remount(rig, STATE, 'ro')
  await serves(t, rig)
  const { pid } = rig
  t.equal((await rig.fetchAs(key)).status, 200, 'nobody is locked out meanwhile')
  t.match(await rig.shell('journalctl --quiet --unit receiverd --output cat'), 'the next start tries again')
  await rig.shell(`mount -o remount,rw ${STATE} && systemctl --no-block restart receiverd.service`)
  await rig.untilBackFrom(pid)
  t.not(rig.key, key)
  t.not((await rig.system()).value.deviceName, 'Changed')
})
