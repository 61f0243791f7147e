import { join } from 'node:path'
import { test } from 'tap'
import { System } from '../../../hal/os/system.ts'

test('under another root no command runs', async t => {
  const root = t.testdir({})
  const ran: string[][] = []
  const system = new System(root, {
    run: async argv => `${ran.push([...argv])}`,
    monitor: argv => () => ran.push([...argv]),
  })
  system.monitor(['alsactl', 'monitor'], () => undefined)()
  await t.rejects(system.run(['systemctl', 'restart', 'unit']), { message: 'systemctl does not run on another root' })
  t.same(ran, [])
  t.equal(new System('/').isRunning, true)
  t.equal(new System(join(root, '..')).isRunning, false)
})
