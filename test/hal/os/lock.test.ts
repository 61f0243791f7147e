import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { KERNEL, O_RDONLY } from '../../../hal/files/kernel.ts'
import { lockFile, runCommand } from '../../../hal/os/command.ts'
import { claimFolder } from '../../../hal/os/lock.ts'
import { NEEDS_ROOT } from '../../support/needs.ts'
import { mount } from '../support/mount.ts'
import { newRoot } from '../support/tree.ts'

const LOCK = new URL('../../../hal/os/lock.ts', import.meta.url).href

/** Another process that claims a folder and goes on; resolves when it has. */
async function claimant(t: Test, folder: string): Promise<ChildProcess> {
  const script = `import { claimFolder } from ${JSON.stringify(LOCK)}
    await claimFolder(${JSON.stringify(folder)})
    setInterval(() => undefined, 1000)
    console.log('claimed')`
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve)
    child.once('exit', status => reject(new Error(`exit ${status}`)))
  })
  return child
}

test('a folder is claimed by one process, by whatever path, until that is killed', async t => {
  const root = newRoot(t)
  const folder = join(root, 'var/lib/receiverd')
  symlinkSync('var', join(root, 'link'))
  const first = await claimant(t, folder)
  t.same(readdirSync(folder), [], 'the folder is made, and nothing is left in it')
  for (const path of [folder, `${folder}/../receiverd/`, join(root, 'link/lib/receiverd')])
    await t.rejects(claimFolder(path), { code: 'IN_USE', message: 'the folder is used by another process' })
  await t.resolves(claimFolder(join(root, 'etc')), 'another folder is free')

  const gone = new Promise(resolve => first.once('exit', resolve))
  first.kill('SIGKILL')
  await gone
  await t.resolves(claimFolder(folder))
  t.ok((await claimant(t, folder).catch(error => error)) instanceof Error, 'and is refused to the next one')
})

test('a command that the process runs does not inherit the claim', async t => {
  const folder = join(newRoot(t), 'state')
  await claimFolder(folder)
  const open = await runCommand(['sh', '-c', 'ls -l /proc/self/fd'])
  t.notMatch(open, folder)
})

test('a folder on a read-only file system can be claimed', { skip: NEEDS_ROOT }, async t => {
  const folder = join(newRoot(t), 'etc')
  if (!mount(t, folder, '-t', 'tmpfs', '-o', 'ro', 'tmpfs')) return
  await t.resolves(claimFolder(folder))
  await t.rejects(claimFolder(folder), { code: 'IN_USE' })
})

test('without flock(1) it is not known whether the folder is in use', async t => {
  const { PATH } = process.env
  process.env.PATH = '/nowhere'
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const folder = newRoot(t)
  await t.rejects(claimFolder(folder), { code: 'COMMAND_FAILED', message: 'flock is not installed' })
  await t.rejects(lockFile(KERNEL.open(folder, O_RDONLY)), { code: 'COMMAND_FAILED' })
})
