import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { System } from '../../../hal/os/system.ts'
import { moderation } from '../../../hal/settings/moderation.ts'
import { deviceRoot } from '../../support/device.ts'

const FILE = 'etc/receiverd/moderation.conf'

test('without a file nobody is asked; what is written is read, and other lines stay', async t => {
  const root = deviceRoot(t)
  const setting = moderation(new System(root))
  t.strictSame(await setting.read(), { approval: 'none', timeoutS: 120 })
  await setting.write?.({ approval: 'moderator', timeoutS: 30 })
  t.equal(readFileSync(join(root, FILE), 'utf8'), 'APPROVAL=moderator\nTIMEOUT_S=30\n')
  writeFileSync(join(root, FILE), '# by hand\nAPPROVAL=moderator\n')
  t.strictSame(await setting.read(), { approval: 'moderator', timeoutS: 120 })
  await setting.write?.({ approval: 'none', timeoutS: 600 })
  t.equal(readFileSync(join(root, FILE), 'utf8'), '# by hand\nAPPROVAL=none\nTIMEOUT_S=600\n')
})

test('what cannot be understood is not taken for a value', async t => {
  const root = deviceRoot(t)
  const setting = moderation(new System(root))
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
