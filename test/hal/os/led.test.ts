import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { Led } from '../../../hal/os/led.ts'
import { eventually } from '../../support/eventually.ts'
import { runningAt } from '../support/setting-device.ts'
import { newRoot } from '../support/tree.ts'

const LEDS = 'sys/class/leds'

/** A device with these LEDs. A file is not the kernel: a write is put over the old text. */
function deviceWith(t: Test, leds: Readonly<Record<string, string | undefined>>) {
  const root = newRoot(t)
  for (const [name, trigger] of Object.entries(leds)) {
    const folder = join(root, LEDS, name)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'brightness'), '7\n')
    writeFileSync(join(folder, 'max_brightness'), '255\n')
    if (trigger !== undefined) writeFileSync(join(folder, 'trigger'), trigger)
  }
  const led = new Led(runningAt(root))
  t.teardown(() => led.stop())
  return { led, root, text: (name: string, file: string) => readFileSync(join(root, LEDS, name, file), 'utf8') }
}

test('the LED that people look at blinks', async t => {
  for (const [names, best] of [
    [['PWR', 'ACT', 'mmc0::'], 'ACT'],
    [['led1', 'led0'], 'led0'],
    [['nanopi:red:power', 'nanopi:green:status'], 'nanopi:green:status'],
    [['blue:activity-1', 'red:fault'], 'blue:activity-1'],
    [['input3::capslock', 'work-led'], 'work-led'],
  ] as const) {
    const { led, text } = deviceWith(t, Object.fromEntries(names.map(name => [name, 'none [mmc0] timer\n'])))
    await led.blink(10_000)
    for (const name of names) t.equal(text(name, 'brightness').slice(0, 3) === '255', name === best, name)
    await led.stop()
  }
})

test('a device without one of its own', async t => {
  for (const leds of [{}, { 'input3::capslock': 'none [kbd-capslock]\n', 'mmc0::': '[mmc0]\n' }])
    await t.rejects(deviceWith(t, leds).led.blink(10), { code: 'ABSENT', message: 'the device has no LED of its own' })
})

test('it blinks for the time given, and then does what it did before', async t => {
  const { led, text } = deviceWith(t, { ACT: 'none [mmc0] timer\n' })
  await led.blink(60_000)
  t.match(text('ACT', 'trigger'), /^none/)
  await eventually(() => text('ACT', 'brightness').startsWith('055'))
  await eventually(() => text('ACT', 'brightness').startsWith('255'))
  const began = performance.now()
  await led.blink(700)
  await eventually(() => text('ACT', 'trigger').startsWith('mmc0'))
  t.ok(performance.now() - began > 600)
  t.match(text('ACT', 'brightness'), /^7/)
})

test('asked again meanwhile it goes on, and a stop puts back what was there first', async t => {
  const { led, text } = deviceWith(t, { ACT: '[heartbeat] none\n' })
  await led.blink(200)
  await led.blink(60_000)
  await wait(400)
  t.match(text('ACT', 'trigger'), /^none/, 'it goes on')
  await led.stop()
  t.match(text('ACT', 'trigger'), /^heartbeat/)
  await led.stop()
})

test('an LED without triggers is switched all the same', async t => {
  const { led, text } = deviceWith(t, { ACT: undefined })
  await led.blink(10_000)
  t.match(text('ACT', 'brightness'), /^255/)
  await led.stop()
  t.match(text('ACT', 'brightness'), /^7/)
})

test('an LED that goes away while it blinks', async t => {
  const { led, root } = deviceWith(t, { ACT: '[heartbeat] none\n' })
  await led.blink(400)
  rmSync(join(root, LEDS), { recursive: true })
  await wait(700)
  await t.rejects(led.blink(10), { code: 'ABSENT' })
})
