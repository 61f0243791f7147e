/** Messages to an operator when the service starts where it should not, or cannot start. */

import { chmodSync, copyFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { type Output, run } from '../support/run.ts'
import { BUNDLE, receiverd, startReceiver } from './support.ts'

t.test('serve --root warns of the key that it puts there: the root may become an image', async t => {
  const receiver = await startReceiver(t)
  t.match(
    receiver.log.filter(line => line.startsWith('<4>')).join('\n'),
    `${receiver.root}/var/lib/receiverd: delete that folder before you make an image of ${receiver.root}; no image may hold`,
  )
})

t.test('without the right to read the state directory: run it as root', async t => {
  const root = deviceRoot(t)
  const stateDir = join(root, 'state')
  // A copy, for a user who may not read the repository.
  const bundle = join(root, 'receiverd.cjs')
  copyFileSync(BUNDLE, bundle)
  for (const path of [root, bundle]) chmodSync(path, 0o755)
  await receiverd(['key', 'rotate', '--state-dir', stateDir])
  chmodSync(stateDir, process.getuid?.() === 0 ? 0o700 : 0o000)
  t.teardown(() => chmodSync(stateDir, 0o700))
  const commands = [
    ['key', 'show'],
    ['key', 'rotate'],
    ['token', '--role', 'admin:r'],
    ['serve', '--root', root, '--listen', '127.0.0.1:0'],
  ]
  for (const args of commands) {
    const output = await asNobody(bundle, [...args, '--state-dir', stateDir])
    t.match({ ...output, stderr: '' }, { status: 1, stdout: '' }, args.join(' '))
    t.match(output.stderr, /^receiverd: cannot access \S+: permission denied \(EACCES\); run it as root\n$/m)
  }
})

t.test('a start that failed under systemd is logged as an error, and not repeated at once', async t => {
  const env = { NOTIFY_SOCKET: '/nonexistent' }
  const began = performance.now()
  const output = await receiverd(['serve', '--listen', 'here'], env)
  t.same(output, {
    status: 2,
    stdout: '',
    stderr: '<3>--listen: "here" is not ADDRESS:PORT, such as 127.0.0.1:8080 or [::]:80\n',
  })
  t.ok(performance.now() - began >= 5_000, `after ${(performance.now() - began).toFixed(0)} ms`)
})

t.test('a socket for engines where none can be', async t => {
  const root = deviceRoot(t)
  for (const [path, reason] of [
    ['/nowhere/engines', 'permission denied (EACCES)'],
    [BUNDLE, 'address already in use (EADDRINUSE)'],
  ] as const) {
    const { status, stderr } = await receiverd(['serve', '--root', root, '--listen', '127.0.0.1:0', '--engines', path])
    t.equal(status, 1)
    t.match(stderr, `receiverd: cannot listen on ${path}: ${reason}; give --engines a path that nothing else uses`)
  }
})

/** Runs the command line as a user without rights: as this one, if it is not root. */
async function asNobody(bundle: string, args: readonly string[]): Promise<Output> {
  const user = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []
  // Without what tap adds to the environment of each Node: that user may not write its files.
  return run('env', ['--ignore-environment', ...user, process.execPath, bundle, ...args])
}
