/** Sessions where systemd runs the service, through the socket that it passes. */
import type { Test } from 'tap'
import type { Session } from '../../src/sessions/session.ts'
import { eventually } from '../support/eventually.ts'
import type { Target } from './suite.ts'

export interface SystemdTarget extends Target {
  /** Runs a command as root on the device, and returns what it printed. */
  shell(command: string): Promise<string>
}

export async function sessionsOf(t: Test, device: SystemdTarget): Promise<void> {
  t.equal((await device.shell('stat -c %a:%U:%G /run/receiverd/engines.sock')).trim(), '660:root:receiverd-engines')
  t.equal((await device.patch({ moderation: { approval: 'moderator' } })).status, 200)
  const only = (state: string) =>
    eventually(async () => {
      const { sessions } = (await (await device.fetch('/sessions')).json()) as { sessions: readonly Session[] }
      return sessions.length === 1 && sessions[0]?.state === state && sessions[0]
    })
  await device.shell(
    'nohup receiverd session --protocol demo --name Ann -- sh -c \'touch /tmp/shown; trap "rm /tmp/shown; exit" TERM; while :; do sleep 1; done\' >/tmp/session.log 2>&1 &',
  )
  const asked = await only('pending')
  t.equal(asked.name, 'Ann')
  await device.restart()
  const { id } = await only('pending')
  t.equal((await device.fetch(`/sessions/${id}/admit`, { method: 'POST' })).status, 200)
  await device.shell('until [ -e /tmp/shown ]; do sleep 0.1; done')
  await device.restart()
  const active = await only('active')
  t.equal((await device.fetch(`/sessions/${active.id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(device.shell('ls /tmp/shown'), 'it is off the screen')
  t.equal((await device.patch({ moderation: { approval: 'none' } })).status, 200)
}
