import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HalError } from '../../hal/errors.ts'
import { Screen } from '../../hal/os/screen.ts'
import { System } from '../../hal/os/system.ts'
import { pinScreen } from '../../src/presence/pin-screen.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'

t.test('a PIN that could not be shown or hidden is tried again', async t => {
  const root = deviceRoot(t)
  const picture = join(root, 'run/receiverd/screen/pin.svg')
  mkdirSync(join(root, 'run/receiverd/screen'), { recursive: true })
  writeFileSync(join(root, 'usr/lib/systemd/system/screen@.service'), '')
  writeFileSync(picture, 'from before a crash')
  const ran: string[] = []
  const log: string[] = []
  let isBroken = true
  const system = new System(root, {
    running: true,
    run: async argv => {
      if (isBroken) throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
      ran.push(argv.join(' '))
      return ''
    },
  })
  const show = pinScreen(new Screen(system), (level, line) => log.push(`${level}: ${line}`))
  const failure = 'warning: the screen may lack a PIN, or still show one: systemctl failed with status 1'
  for (const [pin, command] of [
    [undefined, 'systemctl stop screen@pin.service'],
    ['0007', 'systemctl restart screen@pin.service'],
    [undefined, 'systemctl stop screen@pin.service'],
  ]) {
    isBroken = true
    log.length = 0
    ran.length = 0
    show(pin)
    await eventually(() => log.length > 0)
    t.strictSame(log, [failure])
    isBroken = false
    await eventually(() => ran.length > 0)
    t.strictSame(ran, [command])
    await eventually(() => existsSync(picture) === (pin !== undefined))
  }
})

t.test('a PIN that may be on the screen, although showing it failed, is hidden when its device leaves', async t => {
  let isShown = false
  let hidden = 0
  const show = pinScreen(
    {
      async showPin() {
        isShown = true
        throw new HalError('COMMAND_FAILED', 'systemctl did not end in time')
      },
      async hidePin() {
        isShown = false
        hidden++
      },
    },
    () => undefined,
  )
  show(undefined)
  await eventually(() => hidden === 1)
  show('0007')
  await eventually(() => isShown)
  show(undefined)
  await eventually(() => hidden === 2)
  t.notOk(isShown)
})
