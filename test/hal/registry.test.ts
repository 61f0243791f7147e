import t from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry, settingsOf } from '../../hal/registry.ts'

t.test('a setting stands under its own name', async t => {
  const system = new System('/nowhere')
  const named = Object.entries(settingsOf(system))
  for (const [name, setting] of named) t.equal(setting.name, name)
  t.same(
    registry(system).map(({ name }) => name),
    named.map(([name]) => name),
  )
})
