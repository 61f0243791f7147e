/** Two services on one state directory, and a root that cannot be served, as an operator sees them. */
import { readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { receiverd, startReceiver } from './support.ts'

t.test('a second service on the same state directory is refused: one line, exit 1', async t => {
  const receiver = await startReceiver(t)
  const state = receiver.path('var/lib/receiverd')
  symlinkSync('var/lib/receiverd', receiver.path('state'))
  t.same(readdirSync(state), ['api-key'], 'the claim leaves no file')
  const listen = ['--listen', '127.0.0.1:0']
  const refused = (folder: string) => ({
    status: 1,
    stdout: '',
    stderr: `receiverd: another receiverd is using ${folder}\n`,
  })
  t.same(await receiverd(['serve', '--root', receiver.root, ...listen]), refused(state))
  const other = ['serve', '--root', deviceRoot(t), '--state-dir', receiver.path('state'), ...listen]
  t.same(await receiverd(other), refused(receiver.path('state')), 'also by another name, for another root')

  t.equal((await receiver.fetch('/system')).status, 200, 'the first one is not disturbed')
  const rotated = await receiverd(['key', 'rotate', '--root', receiver.root])
  t.match(rotated, { status: 0, stderr: '' }, 'the other commands work meanwhile')
  t.match(await receiverd(['token', '--role', 'admin:r', '--root', receiver.root]), { status: 0, stderr: '' })
})

t.test('a service that was killed leaves no claim behind', async t => {
  const receiver = await startReceiver(t)
  for (let round = 0; round < 3; round++) {
    const { pid } = receiver
    await receiver.kill()
    await receiver.start()
    t.not(receiver.pid, pid)
    t.equal((await receiver.fetch('/system')).status, 200)
  }
  t.equal(await receiver.stop(), 0)
})

t.test('without flock(1) the service runs, and says what it cannot tell', async t => {
  const receiver = await startReceiver(t, { env: { PATH: '/nowhere' } })
  t.equal((await receiver.fetch('/system')).status, 200)
  t.match(
    receiver.log[0],
    `<4>cannot tell whether another receiverd is using ${receiver.path('var/lib/receiverd')}: flock is not installed`,
  )
})

t.test('a root that does not exist is a usage error', async t => {
  const root = join(deviceRoot(t), 'nowhere')
  for (const args of [['serve'], ['key', 'show'], ['key', 'rotate'], ['token', '--role', 'admin:r']])
    t.same(
      await receiverd([...args, '--root', root]),
      { status: 2, stdout: '', stderr: `receiverd: --root: "${root}" does not exist\n` },
      args.join(' '),
    )
})
