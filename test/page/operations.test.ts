/** The operations, on a machine that does what the page orders. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { click, enter, goTo, signIn, waitForNoText, waitForText } from './steps.ts'

t.test('operations', { skip: NO_RIG || missingBrowser('shell') }, async t => {
  const rig = await startRig(t, {
    files: {
      '/etc/systemd/system/receiverd.service.d/card.conf': '[Service]\nEnvironment=RECEIVERD_CARD=/boot/firmware\n',
      '/boot/firmware/receiver.txt': `name=Boardroom\napi-key=${randomBytes(32).toString('base64url')}\n`,
    },
  })
  const browser = await startBrowser(t)
  const open = async (credential: string) => {
    const tab = await openTab(browser, `${rig.url}/#key=${credential}`)
    await waitForText(tab.page, 'Boardroom')
    await goTo(tab.page, 'Status')
    return tab
  }

  await t.test('operations that a token may not start are not there', async t => {
    const { page } = await open(await rig.receiverd('token', '--role', 'admin:rw'))
    await waitForText(page, 'Reboot…')
    t.notMatch(await page.evaluate(() => document.body.innerText), /Factory reset/)
    const { page: reader } = await open(await rig.receiverd('token', '--role', 'admin:r'))
    await waitForText(reader, 'Memory')
    t.notMatch(await reader.evaluate(() => document.body.innerText), /Reboot/)
  })

  await t.test('identify: why the device cannot do it', async () => {
    const { page } = await open(rig.key)
    await click(page, 'Maintenance', 'Identify')
    await waitForText(page, 'neither a screen nor an LED')
  })

  await t.test('reboot: asked for twice, and the page is there again without a reload', async t => {
    const { page, offences } = await open(rig.key)
    const { pid } = rig
    await click(page, 'Maintenance', 'Reboot…')
    await click(page, 'Reboot: \u2068Boardroom\u2069?', 'Cancel')
    await waitForNoText(page, 'Reboot: \u2068Boardroom\u2069?')
    t.equal(rig.pid, pid)
    await click(page, 'Maintenance', 'Reboot…')
    await click(page, 'Reboot: \u2068Boardroom\u2069?', 'Reboot')
    await waitForText(page, 'Reboot: started.')
    await waitForText(page, 'The device is restarting.')
    await rig.untilBackFrom(pid)
    await waitForNoText(page, 'The device is restarting.')
    await rig.patch({ deviceName: 'Atrium' })
    await waitForText(page, 'Atrium')
    await rig.patch({ deviceName: 'Boardroom' })
    t.strictSame(offences, [])
  })

  await t.test('factory reset: the name is typed first; the credential and what the card gave end with it', async t => {
    const { page, offences } = await open(rig.key)
    const { pid, key } = rig
    const title = 'Factory reset: \u2068Boardroom\u2069?'
    const isDisabled = () => page.$eval('dialog .danger', element => (element as HTMLButtonElement).disabled)
    await click(page, 'Maintenance', 'Factory reset…')
    await enter(page, 'Type “\u2068Boardroom\u2069” to confirm', 'Board')
    t.ok(await isDisabled())
    await enter(page, 'Type “\u2068Boardroom\u2069” to confirm', 'room')
    t.notOk(await isDisabled())
    await page
      .locator(
        '::-p-aria(Also remove the settings and the API key that came from its card, for a device that changes hands.)',
      )
      .click()
    await click(page, title, 'Factory reset')
    await rig.untilBackFrom(pid)
    t.not(rig.key, key)
    await waitForText(page, 'The device has restarted, and no longer accepts this credential.')
    await signIn(page, rig.key)
    await goTo(page, 'Status')
    t.notMatch(await page.evaluate(() => document.body.innerText), /Boardroom/)
    t.strictSame(offences, [])
  })
})
