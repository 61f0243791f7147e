import { execFileSync } from 'node:child_process'
import { chmodSync, closeSync, constants, openSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../../hal/files/kernel.ts'
import { intercepted, systemError, tracked } from '../support/file-system.ts'
import { newRoot } from '../support/tree.ts'

test('a file grows from where it was, and anything after that is cut off', async t => {
  for (const [before, length, after] of [
    [undefined, 0, 'new'],
    ['', 0, 'new'],
    ['old', 0, 'new'],
    ['old', 2, 'olnew'],
    ['old', 3, 'oldnew'],
  ] as const) {
    const root = newRoot(t)
    const at = join(root, 'etc/part')
    if (before !== undefined) writeFileSync(at, before)
    // write(2) may write only a part.
    const writeMuch: FileSystem['writeMuch'] = (file, bytes) => KERNEL.writeMuch(file, bytes.subarray(0, 2))
    const { fs, open } = tracked({ writeMuch })
    const file = await new Files(root, fs).grow('/etc/part', length)
    await file.append(Buffer.from('ne'))
    await file.append(Buffer.from('w'))
    await file.append(Buffer.from(''))
    await file.sync()
    t.equal(readFileSync(at, 'utf8'), after, `${before} from ${length}`)
    await file.append(Buffer.from('12345'))
    file.close()
    t.equal(readFileSync(at, 'utf8'), `${after}12345`)
    t.equal(open.size, 0)
  }
})

test('a new file is for its owner alone, and its name is durable before anything is in it', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const fs = intercepted(call => {
    steps.push(`${call.name} ${call.path.slice(root.length)}`)
    return call.proceed()
  })
  const file = await new Files(root, fs).grow('/etc/part', 0)
  await file.append(Buffer.from('text'))
  await file.sync()
  file.close()
  t.same(steps, ['open /etc/part', 'open /etc', 'file.sync /etc', 'file.append /etc/part', 'file.datasync /etc/part'])
  t.equal(statSync(join(root, 'etc/part')).mode & 0o777, 0o600)
  chmodSync(join(root, 'etc/part'), 0o644)
  ;(await new Files(root).grow('/etc/part', 4)).close()
  t.equal(statSync(join(root, 'etc/part')).mode & 0o777, 0o644, 'an old one keeps its mode')
})

test('no other thing is opened to grow, and a failure closes the file', async t => {
  const root = newRoot(t)
  const at = (name: string) => join(root, 'etc', name)
  const { fs, open } = tracked()
  const files = new Files(root, fs)
  writeFileSync(at('short'), 'text')
  symlinkSync('short', at('link'))
  execFileSync('mkfifo', [at('fifo'), at('read')])
  const reader = openSync(at('read'), constants.O_RDONLY | constants.O_NONBLOCK)
  t.teardown(() => closeSync(reader))
  for (const [name, length, expected] of [
    ['short', 5, { code: 'UNREADABLE', message: 'the file is shorter than it was' }],
    ['link', 0, { code: 'ELOOP' }],
    ['fifo', 0, { code: 'ENXIO' }],
    ['read', 0, { code: 'UNREADABLE', message: 'the file is not a regular file' }],
    ['', 0, { code: 'EISDIR' }],
    ['none/part', 0, { code: 'ENOENT' }],
  ] as const)
    await t.rejects(files.grow(`/etc/${name}`, length), expected, name)
  const failing = { ...fs, fsync: () => Promise.reject(systemError('EIO')) }
  await t.rejects(new Files(root, failing).grow('/etc/part', 0), { code: 'EIO' }, 'its name may not be durable')
  t.equal(readFileSync(at('short'), 'utf8'), 'text')
  t.equal(open.size, 0)
})
