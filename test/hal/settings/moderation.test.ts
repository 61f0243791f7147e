import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import type { Engine } from '../../../hal/engine.ts'
import { enginesOf } from '../../../hal/engines/registry.ts'
import { System } from '../../../hal/os/system.ts'
import { moderation } from '../../../hal/settings/moderation.ts'
import { deviceRoot } from '../../support/device.ts'

const FILE = 'etc/receiverd/moderation.conf'

function moderationAt(root: string, more: readonly Engine[] = []) {
  const system = new System(root)
  return moderation(system, [...enginesOf(system), ...more])
}

function moderationOfOthers(root: string, engines: readonly Engine[]) {
  return moderation(new System(root), engines)
}

/** An engine with its option in a file. */
function engineAt(root: string, path: string, isInstalled = true) {
  const system = new System(root)
  const taken: string[] = []
  const read = async () => (await system.readText(path)) ?? 'open'
  const engine: Engine = {
    isExclusive: true,
    units: ['other.service'],
    approval: {
      files: [path],
      sources: [`${path}.d/*`],
      read: async () => (isInstalled ? (await read()) === 'ask' : undefined),
      write: async isRequired => isInstalled && system.writeAtomic(path, isRequired ? 'ask' : 'open'),
    },
    withoutPin: line => line,
    approvalChanged: async () => void taken.push(await read()),
    start: async () => undefined,
    stop: async () => undefined,
    admit: async () => undefined,
    end: async () => undefined,
  }
  return { engine, taken }
}

test('without a file nobody is asked; what is written is read, and other lines stay', async t => {
  const root = deviceRoot(t)
  const setting = moderationAt(root)
  t.strictSame(await setting.read(), { approval: 'none', timeoutS: 120 })
  await setting.write?.({ approval: 'moderator', timeoutS: 30 })
  t.equal(readFileSync(join(root, FILE), 'utf8'), 'APPROVAL=moderator\nTIMEOUT_S=30\n')
  writeFileSync(join(root, FILE), '# by hand\nAPPROVAL=moderator\n')
  t.strictSame(await setting.read(), { approval: 'moderator', timeoutS: 120 })
  await setting.write?.({ approval: 'none', timeoutS: 600 })
  t.equal(readFileSync(join(root, FILE), 'utf8'), '# by hand\nAPPROVAL=none\nTIMEOUT_S=600\n')
})

test('a text that cannot be understood is not taken for a value', async t => {
  const root = deviceRoot(t)
  const setting = moderationAt(root)
  await setting.write?.({ approval: 'none', timeoutS: 120 })
  for (const [text, message] of [
    ['APPROVAL=moderators\n', 'APPROVAL is neither none nor moderator'],
    ['APPROVAL=\n', 'APPROVAL is neither none nor moderator'],
    ['TIMEOUT_S=1m\n', 'TIMEOUT_S is not a whole number'],
  ] as const) {
    writeFileSync(join(root, FILE), text)
    await t.rejects(setting.read(), { message })
  }
})

test('where the file cannot be understood, no approval is claimed that an engine does not enforce', async t => {
  const root = deviceRoot(t)
  const setting = moderationAt(root)
  await setting.write?.({ approval: 'moderator', timeoutS: 30 })
  writeFileSync(join(root, FILE), 'APPROVAL=moderators\n')
  t.match(await setting.fallback(), { approval: 'moderator' })
  writeFileSync(join(root, 'etc/uxplayrc'), 'n Lobby\n')
  t.match(await setting.fallback(), { approval: 'none' })
  t.match(await moderationOfOthers(root, []).fallback(), { approval: 'moderator' }, 'without an engine')
})

test('every engine that is installed has its option set, and takes it up', async t => {
  const root = deviceRoot(t)
  const other = engineAt(root, '/etc/other.conf')
  const absent = engineAt(root, '/etc/absent.conf', false)
  const setting = moderationAt(root, [other.engine, absent.engine])
  for (const path of [`/${FILE}`, '/etc/uxplayrc', '/etc/other.conf', '/etc/absent.conf'])
    t.ok(setting.files.includes(path), path)
  t.ok(setting.sources?.includes('/etc/other.conf.d/*'))
  const next = { approval: 'moderator', timeoutS: 30 } as const
  t.equal(await setting.write?.(next), true)
  t.equal(await setting.write?.(next), false)
  t.match(readFileSync(join(root, 'etc/uxplayrc'), 'utf8'), /^restrict$/m)
  t.equal(readFileSync(join(root, 'etc/other.conf'), 'utf8'), 'ask')
  t.strictSame(await setting.read(), next)
  await moderationOfOthers(root, [other.engine, absent.engine]).activate?.(
    next,
    { approval: 'none', timeoutS: 30 },
    true,
  )
  t.same(other.taken, ['ask'])
})

test('an engine that lets everybody in is not passed over', async t => {
  const root = deviceRoot(t)
  const { engine } = engineAt(root, '/etc/other.conf')
  const setting = moderationAt(root, [engine])
  await setting.write?.({ approval: 'moderator', timeoutS: 30 })
  writeFileSync(join(root, 'etc/other.conf'), 'open')
  t.strictSame(await setting.read(), { approval: 'none', timeoutS: 30 })
  t.equal(await setting.write?.({ approval: 'moderator', timeoutS: 30 }), true)
  t.strictSame(await setting.read(), { approval: 'moderator', timeoutS: 30 })
})

test('without an engine, the file of this setting says it', async t => {
  const root = deviceRoot(t)
  const setting = moderationOfOthers(root, [engineAt(root, '/etc/absent.conf', false).engine])
  await setting.write?.({ approval: 'moderator', timeoutS: 30 })
  t.strictSame(await setting.read(), { approval: 'moderator', timeoutS: 30 })
})
