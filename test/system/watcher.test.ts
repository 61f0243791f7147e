import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { System } from '../../hal/os/system.ts'
import type { Setting } from '../../hal/setting.ts'
import { POLL_MS, SETTLE_MS } from '../../src/limits.ts'
import { Snapshot } from '../../src/system/snapshot.ts'
import { SettingWatcher } from '../../src/system/watcher.ts'
import { FakeMonitors } from '../support/fakes/monitors.ts'
import { temporaryFolder } from '../support/folder.ts'
import { plain } from '../support/store.ts'

/** A watcher of `text`, which is a file, and of `screen` and `sound`, which are devices. Its clock is the test's. */
function startWatcher(t: Test) {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const monitors = new FakeMonitors()
  const system = new System(temporaryFolder(t), { running: true, monitor: monitors.monitor })
  const device = (name: string, rest: Partial<Setting>) => plain(system, name, { files: [], ...rest })
  const settings = [
    plain(system, 'text'),
    device('screen', { devices: ['drm'], sources: ['/screen'] }),
    device('sound', { devices: ['sound'], watch: changed => system.monitor(['alsactl', 'monitor'], changed) }),
  ]
  const { all } = new Snapshot(settings, () => undefined)
  const looks: string[][] = []
  const watcher = new SettingWatcher(system, () => looks.push(watcher.takeStale().map(({ name }) => name)))
  watcher.watchAll(all)
  const after = (ms: number) => {
    mock.timers.tick(ms)
    return looks.splice(0)
  }
  return { monitors, watcher, all, after }
}

t.test('a setting that was read since it changed is not stale, until it changes again', async t => {
  const { monitors, watcher, all, after } = startWatcher(t)
  monitors.tell('change', 'drm')
  monitors.tell('change', 'sound')
  watcher.forget(all.filter(({ name }) => name === 'screen'))
  t.strictSame(after(SETTLE_MS), [['sound']])
  monitors.tell('change', 'drm')
  t.strictSame(after(SETTLE_MS), [['screen']])
})

t.test('devices are told of, also those of a setting that is not available yet', async t => {
  const { monitors, after } = startWatcher(t)
  t.strictSame(monitors.running, ['udevadm monitor --kernel --udev --subsystem-match=drm --subsystem-match=sound'])
  monitors.tell('change', 'drm')
  t.strictSame(after(SETTLE_MS), [['screen']])
  monitors.tell('add', 'sound')
  monitors.tell('remove', 'drm')
  t.strictSame(after(SETTLE_MS), [['sound', 'screen']], 'together')
  monitors.print('udevadm', 'UDEV  [12.345678] change   /devices/virtual/sound/one (sound)')
  t.strictSame(after(SETTLE_MS), [['sound']], 'when the rules for it have run')
  monitors.print('udevadm', 'UDEV - the event which udev sends out after rule processing')
  monitors.print('udevadm', 'KERNEL - the kernel uevent')
  t.strictSame(after(SETTLE_MS), [], 'not an event')
  monitors.print('udevadm', '')
  t.strictSame(after(SETTLE_MS), [['screen', 'sound']], 'it has begun to listen')
})

t.test('without being told it looks once a minute, at files alone', async t => {
  const { after } = startWatcher(t)
  t.equal(POLL_MS, 60_000)
  t.strictSame(after(POLL_MS - 1), [])
  t.strictSame(after(1), [])
  t.strictSame(after(SETTLE_MS), [['text', 'screen']], 'a look at the sound would start a process')
})

t.test('an available setting tells by itself, until the watcher is stopped', async t => {
  const { monitors, watcher, all, after } = startWatcher(t)
  for (const entry of all) watcher.watch(entry)
  monitors.print('alsactl monitor', 'node hw:0, #1 (2,0,0,Master Playback Volume,0) VALUE')
  t.strictSame(after(SETTLE_MS), [['sound']])
  watcher.stop()
  t.strictSame(monitors.running, [])
  t.strictSame(after(2 * POLL_MS), [])
})
