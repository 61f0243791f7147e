/**
 * An update of the emulated device from a phone, with the plug pulled in the middle of it: the page in a real browser,
 * through nginx and TLS. Needs an image, and takes about ten minutes.
 */
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { virt } from '../device/boards.ts'
import { makeBundle } from '../device/bundle.ts'
import { factoryDisk, Machine } from '../device/machine.ts'
import { INSTALL_MS, TRIAL_MS, updating } from '../device/updating.ts'
import { openTab, PHONE, startBrowser } from '../page/browser.ts'
import { choose, chooseFile, click, goTo, waitForText } from '../page/steps.ts'
import { temporaryFolder } from '../support/folder.ts'

const VERSION = '0.2.0'
const CARD = 'New version'
/** To be looked at. */
const PICTURES = join(REPOSITORY, 'build/out/phone')
/** Of the installation, when the plug is pulled. */
const PERCENT = 40

t.setTimeout(90 * 60_000)

t.test('updated from a phone, with the plug pulled in the middle', async t => {
  const device = new Machine(factoryDisk())
  t.teardown(() => device.cutPower())
  const { settled, configure, identity } = updating(device, line => t.comment(line))
  await device.boot()
  await configure()
  const before = await identity()

  // Its owner has accepted the certificate.
  const browser = await startBrowser(t, 'shell', ['--ignore-certificate-errors'])
  const { page, offences } = await openTab(browser, `https://${device.address}/#key=${device.key}`, page =>
    page.setViewport(PHONE),
  )
  page.setDefaultTimeout(INSTALL_MS)
  const picture = (name: string) => page.screenshot({ path: join(PICTURES, `${name}.png`) as `${string}.png` })
  const install = async (restart: string) => {
    await click(page, CARD, 'Install…')
    await choose(page, `Install ${VERSION}?`, 'Restart', restart)
    await click(page, `Install ${VERSION}?`, 'Install')
    await waitForText(page, `Version ${VERSION} is being installed`)
  }

  await goTo(page, 'Update')
  await chooseFile(page, CARD, makeBundle(temporaryFolder(t), virt, VERSION))
  await waitForText(page, 'Leave the page open')
  await picture('sending')
  await waitForText(page, `Version ${VERSION} is here, and can be installed.`)
  await install('Later, by hand')
  await settled(({ percent = 0 }) => percent >= PERCENT, INSTALL_MS)
  await picture('installing')
  device.cutPower()
  await waitForText(page, 'Not connected')
  await picture('unplugged')

  // The page was never reloaded.
  await device.boot()
  await waitForText(page, `Version ${VERSION} was not installed.`)
  await waitForText(page, 'Reason: interrupted.')
  await picture('plugged-in')
  t.same(await identity(), before)

  await install('At once: mirroring ends')
  await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
  await waitForText(page, `Version ${VERSION} was installed, and works.`)
  await picture('updated')
  await device.reconnect()
  t.same(await identity(), before)
  const ofPage = offences.filter(offence => !offence.includes('ERR_'))
  t.same(ofPage, [], 'nothing that a page must not do')
})
