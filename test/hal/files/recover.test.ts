import { lstatSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { errorCode } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import {
  failingAt,
  intercepted,
  refuseRename,
  refusing,
  Stopped,
  stoppingAt,
  systemError,
} from '../support/file-system.ts'
import { leftoversIn, newRoot, treeOf } from '../support/tree.ts'

/** Writes, each with the text before and after it. */
const writes: Record<string, { before: string; after: string; act: (files: Files) => Promise<unknown> }> = {
  'a text': { before: 'text', after: 'new text', act: files => files.writeAtomic('/etc/place', 'new text') },
  'a longer text': {
    before: 'text',
    after: 'n'.repeat(9999),
    act: files => files.writeAtomic('/etc/place', 'n'.repeat(9999)),
  },
  'an empty text': { before: 'text', after: '', act: files => files.writeAtomic('/etc/place', '') },
  'another mode': { before: 'text', after: 'text', act: files => files.writeAtomic('/etc/place', 'text', 0o600) },
}

test('a call that fails leaves the old text or the new one, and no temporary file', async t => {
  for (const code of ['ENOSPC', 'EIO', 'EROFS', 'EDQUOT', 'EACCES'] as const)
    for (const way of ['by rename', 'in place']) {
      let n = 1
      for (let failed = true; failed; n++) {
        const root = newRoot(t)
        writeFileSync(join(root, 'etc/place'), 'text')
        const failing = failingAt(n, code, call => call.changes)
        const files = new Files(root, way === 'in place' ? refusing(failing, 'EBUSY') : failing)
        const image = await files.capture('/etc/place')
        failed = await files.writeAtomic('/etc/place', 'new text').then(
          () => false,
          error => errorCode(error) === code || t.fail(`another error: ${error}`),
        )
        if (failed) await new Files(root).restore(image)
        const text = readFileSync(join(root, 'etc/place'), 'utf8')
        t.equal(text, failed ? 'text' : 'new text', `${code} at call ${n} ${way}`)
        t.same(leftoversIn(root), [], `no leftovers of ${code} at call ${n} ${way}`)
      }
      t.ok(n > (way === 'in place' ? 10 : 6), `${n} calls ${way}`)
    }
})

test('after a process ends at any step, the next start has the old text or the new one', async t => {
  for (const code of [undefined, 'EBUSY', 'EXDEV'] as const)
    for (const [what, { before, after, act }] of Object.entries(writes)) {
      const states = new Set<string>()
      const refuse = code && refuseRename(code)
      let n = 1
      for (let stopped = true; stopped; n++) {
        const root = newRoot(t)
        writeFileSync(join(root, 'etc/place'), before)
        stopped = await act(new Files(root, stoppingAt(n, refuse))).then(
          () => false,
          error => error instanceof Stopped,
        )
        // The next start may be interrupted as well.
        for (let m = 1; m < n && leftoversIn(root).length > 0; m++)
          await new Files(root, stoppingAt(m, refuse)).recover('/etc/place')
        await new Files(root, stoppingAt(Number.POSITIVE_INFINITY, refuse)).recover('/etc/place')
        const text = readFileSync(join(root, 'etc/place'), 'utf8')
        const step = `${what}, step ${n}${code ? ` after ${code}` : ''}`
        if (text !== before && text !== after) t.fail(`a torn text: ${step}`, { text })
        if (!stopped) t.equal(text, after, `${what} is written in ${n - 1} steps`)
        if (leftoversIn(root).length > 0) t.fail(`leftovers: ${step}`, { leftovers: leftoversIn(root) })
        states.add(text)
      }
      t.same([...states], [...new Set([before, after])], `${what}: first the old, then the new`)
      t.ok(n > (code ? 9 : 5), `${n} steps were tried`)
    }
})

test('after a process ends while a link is made, there is the old one or the new one', async t => {
  for (let [n, stopped] = [1, true]; stopped; n++) {
    const root = newRoot(t)
    symlinkSync('old', join(root, 'etc/link'))
    stopped = await new Files(root, stoppingAt(n)).writeLink('/etc/link', 'new').then(
      () => false,
      error => error instanceof Stopped,
    )
    await new Files(root).recover('/etc/link')
    t.match(readlinkSync(join(root, 'etc/link')), stopped ? /^(old|new)$/ : /^new$/)
    t.same(leftoversIn(root), [])
  }
})

test('an interrupted write in place is completed even if the mount is gone', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  for (const present of ['torn', undefined]) {
    if (present === undefined) rmSync(join(root, 'etc/place'))
    else writeFileSync(join(root, 'etc/place'), present)
    writeFileSync(join(root, 'etc/.place.receiverd-redo'), 'whole')
    await files.recover('/etc/place')
    t.equal(await files.readText('/etc/place'), 'whole')
    t.same(leftoversIn(root), [])
  }
})

test('a disk that does not allow recovery does not stop a start', async t => {
  for (const code of ['EROFS', 'ENOSPC', 'EIO'] as const) {
    const root = newRoot(t)
    writeFileSync(join(root, 'etc/place'), 'torn')
    writeFileSync(join(root, 'etc/.place.receiverd-redo'), 'whole')
    writeFileSync(join(root, 'etc/.place.receiverd-0123'), 'rest')
    const fs = intercepted(call => {
      if (call.changes) throw systemError(code)
      return call.proceed()
    })
    await t.resolves(new Files(root, fs).recover('/etc/place'), code)
    t.equal(leftoversIn(root).length, 2, 'the whole text is kept')
    await new Files(root).recover('/etc/place')
    t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'whole', 'until it can be put in place')
  }
})

test('the whole text is kept if the mount point cannot be opened', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/place'), 'torn')
  writeFileSync(join(root, 'etc/.place.receiverd-redo'), 'whole')
  const refuse = refuseRename('EBUSY')
  const fs = intercepted(call => {
    refuse(call)
    if (call.name === 'open' && call.path.endsWith('/place')) throw systemError('EMFILE')
    return call.proceed()
  })
  await new Files(root, fs).recover('/etc/place')
  t.equal(readFileSync(join(root, 'etc/.place.receiverd-redo'), 'utf8'), 'whole')
})

test('a file is not emptied if somebody removes its new content before it is overwritten', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/place'), 'old')
  const refuse = refuseRename('EBUSY')
  const fs = intercepted(call => {
    refuse(call)
    if (call.name === 'open' && call.path.endsWith('/place')) rmSync(join(root, 'etc/.place.receiverd-redo'))
    return call.proceed()
  })
  await t.rejects(new Files(root, fs).writeAtomic('/etc/place', 'new'), {
    code: 'UNREADABLE',
    message: 'the new content was removed before it was in place',
  })
  t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'old')
  const gone = intercepted(call => {
    if (call.name === 'rename' && call.path.endsWith('/place')) {
      for (const path of leftoversIn(root)) rmSync(join(root, path))
      throw systemError('EBUSY')
    }
    return call.proceed()
  })
  await t.rejects(new Files(root, gone).writeAtomic('/etc/place', 'new'), { code: 'ENOENT' })
  t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'old')
  t.same(leftoversIn(root), [])
})

test('an overwrite that is refused before it begins leaves nothing to finish', async t => {
  for (const [name, path] of [
    ['rename', 'etc/.place.receiverd-redo'],
    ['file.sync', 'etc'],
    ['open', 'etc/place'],
  ] as const) {
    const root = newRoot(t)
    writeFileSync(join(root, 'etc/place'), 'old')
    const refuse = refuseRename('EBUSY')
    let calls = 0
    const fs = intercepted(call => {
      refuse(call)
      if (call.name === name && call.path === join(root, path) && ++calls === 1) throw systemError('ENOSPC')
      return call.proceed()
    })
    await t.rejects(new Files(root, fs).writeAtomic('/etc/place', 'new'), { code: 'ENOSPC' }, name)
    await new Files(root).recover('/etc/place')
    t.equal(
      readFileSync(join(root, 'etc/place'), 'utf8'),
      'old',
      `${name}: a change that was refused does not come later`,
    )
    t.same(leftoversIn(root), [], name)
  }
})

test('the first failure is reported, and not that of the clearing up after it', async t => {
  for (const put of [
    (files: Files) => files.writeAtomic('/etc/place', 'new'),
    (files: Files) => files.writeLink('/etc/place', 'new'),
  ]) {
    const root = newRoot(t)
    const fs = intercepted(call => {
      if (call.name === 'unlink') throw systemError('EIO')
      if (call.name === 'rename') throw systemError('ENOSPC')
      return call.proceed()
    })
    await t.rejects(put(new Files(root, fs)), { code: 'ENOSPC' })
    await new Files(root).recover('/etc/place')
    t.same(leftoversIn(root), [])
  }
})

test('several files of a folder are recovered at once', async t => {
  const root = newRoot(t)
  for (const name of ['a', 'b', 'c']) {
    writeFileSync(join(root, 'etc', name), 'torn')
    writeFileSync(join(root, `etc/.${name}.receiverd-redo`), 'whole')
    writeFileSync(join(root, `etc/.${name}.receiverd-0`), 'rest')
  }
  await new Files(root).recover('/etc/a', '/nowhere/file', '/etc/b')
  for (const [name, text] of [
    ['a', 'whole'],
    ['b', 'whole'],
    ['c', 'torn'],
  ] as const)
    t.equal(readFileSync(join(root, 'etc', name), 'utf8'), text, name)
  t.same(leftoversIn(root).toSorted(), ['/etc/.c.receiverd-0', '/etc/.c.receiverd-redo'])
})

test('a leftover that is a link is not followed', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/other'), 'other')
  writeFileSync(join(root, 'etc/place'), 'text')
  symlinkSync(join(root, 'etc/other'), join(root, 'etc/.place.receiverd-redo'))
  await new Files(
    root,
    refusing(
      intercepted(call => call.proceed()),
      'EBUSY',
    ),
  ).recover('/etc/place')
  t.equal(readFileSync(join(root, 'etc/other'), 'utf8'), 'other')
  t.ok(lstatSync(join(root, 'etc/place')).isFile())
})

test('other files are not leftovers', async t => {
  const root = newRoot(t)
  for (const name of ['.place', '.place2.receiverd-0', 'place.receiverd-0', '.placereceiverd-0', 'place'])
    writeFileSync(join(root, 'etc', name), '')
  const before = treeOf(root)
  await new Files(root).recover('/etc/place')
  t.same(treeOf(root), before)
})
