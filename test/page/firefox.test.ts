import t from 'tap'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import { click, enter, fill, goTo, stored, waitForText } from './steps.ts'

t.test('Firefox: sign in, change, live event', { skip: missingBrowser('firefox') }, async t => {
  const { service, ask } = await startPageDevice(t)
  const { page, offences } = await openTab(await startBrowser(t, 'firefox'), service.url)
  await enter(page, 'API key or token', `${service.key}\n`)
  await waitForText(page, 'Meeting Room 4')
  t.strictSame(await stored(page), { session: [service.key], local: [] })

  await goTo(page, 'Settings')
  await fill(page, 'General', 'Device name', 'Renard')
  await click(page, 'General', 'Save')
  await waitForText(page, 'Saved.')
  t.equal((await service.system()).value.deviceName, 'Renard')

  await service.patch({ deviceName: 'Renarde' })
  await waitForText(page, 'Renarde')
  await goTo(page, 'Sessions')
  await ask('Ann’s iPhone')
  await waitForText(page, 'Ann’s iPhone')
  t.strictSame(offences, [])
})
