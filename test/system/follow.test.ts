import { mock } from 'node:test'
import t from 'tap'
import { HalError } from '../../hal/errors.ts'
import { System } from '../../hal/os/system.ts'
import { POLL_MS } from '../../src/limits.ts'
import { follow } from '../../src/system/follow.ts'
import { plain, startStoreOf } from '../support/store.ts'

t.test('a step that failed is tried again, and logged once', async t => {
  const system = new System(t.testdir({ name: 'n' }))
  const { store, log } = await startStoreOf(t, system, [plain(system, 'name')])
  let fails = true
  let tries = 0
  const done: string[] = []
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  follow({
    configuration: store,
    derive: () => String(store.value('name')),
    apply: async name => {
      tries++
      if (fails) throw new HalError('COMMAND_FAILED', 'the disk is full')
      done.push(name)
    },
    failure: 'the sign could not be painted',
    log: (_, line) => log.push(line),
  })
  const settled = async (count: number) => {
    while (tries < count) await new Promise(resolve => setImmediate(resolve))
    // The promises behind it.
    await new Promise(resolve => setImmediate(resolve))
  }
  for (let n = 1; n <= 3; n++) {
    await settled(n)
    mock.timers.tick(POLL_MS)
  }
  fails = false
  await settled(4)
  mock.timers.tick(10 * POLL_MS)
  await settled(4)
  t.equal(tries, 4, 'and not once it is done')
  t.same(done, ['n'])
  t.same(
    log.filter(line => line.includes('sign')),
    ['the sign could not be painted: the disk is full'],
  )
})
