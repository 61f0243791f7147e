/**
 * A change of the address that the page itself was loaded from, on a device whose address really changes. It has a network of
 * its own: where another machine appears or goes, Chromium breaks off whatever it loads.
 */
import { missingBrowser, openTab, startBrowser } from '../page/browser.ts'
import { click, fill, goTo, valueIn, waitForText } from '../page/steps.ts'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { testInOwnNetwork } from '../support/own-network.ts'

/** The cable of the rig belongs to no device, as that of a computer does. */
const CARD = `mount -t tmpfs tmpfs /sys/class/net
mkdir -p /sys/class/net/eth0/device
ln -s /sys/devices/virtual/net/eth0/* /sys/class/net/eth0/`

const skip = NO_RIG || missingBrowser('shell')
testInOwnNetwork('a new address is kept from the page', skip, async t => {
  const rig = await startRig(t)
  await rig.replaceFile(
    '/etc/systemd/network/20-wired.network',
    `[Match]\nName=eth0\n\n[Network]\nAddress=${rig.address}/24\n`,
  )
  await rig.shell(CARD)
  await rig.restart()
  const browser = await startBrowser(t)
  const { key } = rig
  const moved = rig.address.replace(/\.2$/, '.3')
  const { page } = await openTab(browser, `http://${rig.address}:8080/#key=${key}`)
  await goTo(page, 'Settings')
  await fill(page, 'Network', 'Address', `${moved}/24`)
  await click(page, 'Network', 'Save')
  await waitForText(page, 'Checking the connection')
  await page.waitForFunction(host => location.hostname === host, { polling: 100 }, moved)
  await waitForText(page, 'The device can be reached here, and the change is kept.')
  await t.rejects(fetch(`${rig.url}/api/v1/health`, { signal: AbortSignal.timeout(2_000) }), 'the old address is gone')

  const there = (path: string) =>
    fetch(`http://${moved}:8080/api/v1${path}`, { headers: { Authorization: `Bearer ${key}` } })
  const status = (await (await there('/status')).json()) as object
  t.notHas(status, { trial: Object })
  t.match(await (await there('/system')).json(), { network: { eth0: { address: `${moved}/24` } } })
  await goTo(page, 'Settings')
  t.equal(await valueIn(page, 'Network', 'Address'), `${moved}/24`)
})
