/** Sessions where systemd runs the service, through the socket that it passes. */
import t from 'tap'
import type { Session } from '../../src/sessions/session.ts'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

t.test('sessions of a program that asks at the socket', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  t.equal((await rig.shell('stat -c %a:%U:%G /run/receiverd/engines.sock')).trim(), '660:root:receiverd-engines')
  t.equal((await rig.patch({ moderation: { approval: 'moderator' } })).status, 200)
  const only = (state: string) =>
    eventually(async () => {
      const { sessions } = (await (await rig.fetch('/sessions')).json()) as { sessions: readonly Session[] }
      return sessions.length === 1 && sessions[0]?.state === state && sessions[0]
    })
  await rig.shell(
    'nohup receiverd session --protocol demo --name Ann -- sh -c \'touch /tmp/shown; trap "rm /tmp/shown; exit" TERM; while :; do sleep 1; done\' >/tmp/session.log 2>&1 &',
  )
  const asked = await only('pending')
  t.equal(asked.name, 'Ann')
  await rig.restart()
  const { id } = await only('pending')
  t.equal((await rig.fetch(`/sessions/${id}/admit`, { method: 'POST' })).status, 200)
  await rig.shell('until [ -e /tmp/shown ]; do sleep 0.1; done')
  const before = await only('active')
  await rig.restart()
  const active = await only('active')
  t.same([active.id, active.since], [id, before.since], 'the same session')
  t.equal((await rig.fetch(`/sessions/${active.id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(rig.shell('ls /tmp/shown'), 'it is off the screen')
  t.equal((await rig.patch({ moderation: { approval: 'none' } })).status, 200)
})
