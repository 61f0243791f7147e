import { readFileSync } from 'node:fs'
import type { HTTPRequest } from 'puppeteer-core'
import t, { type Test } from 'tap'
import { needs } from '../support/needs.ts'
import { startWifiDevice } from '../support/wifi-device.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  click,
  clickNamed,
  fill,
  goTo,
  holdConfirmations,
  press,
  valueIn,
  waitForNoText,
  waitForText,
} from './steps.ts'

const OFFICE = { ssid: 'Office', password: 'correct horse', level: -50, flags: '[WPA2-PSK-CCMP][ESS]' }
const LAB = { ssid: 'Lab', password: 'battery staple', level: -65, flags: '[WPA2-SAE-CCMP][ESS]' }
const GUESTS = { ssid: 'Guests', level: -85 }
const EVIL = { ssid: '\u{202e}<img src=x onerror=alert(1)>', level: -30 }
const CORP = { ssid: 'Corp', level: -70, flags: '[WPA2-EAP-CCMP][ESS]' }

/** The page of a device that is in the network Office. */
async function start(t: Test) {
  const { options, fake, file } = await startWifiDevice(t)
  await fake.air([OFFICE, LAB, GUESTS, EVIL, CORP], 'in Office')
  const { service, link } = await startPageDevice(t, options)
  const wifi = async () =>
    (await service.system()).value.wifi as unknown as { networks: readonly { ssid: string }[]; connected: string }
  const add = async (ssid: string) => {
    const { networks } = await wifi()
    const patched = { wifi: { networks: [...networks, { ssid, password: '', hidden: false }] } as never }
    t.equal((await service.patch(patched)).status, 200)
  }
  const names = async () => (await wifi()).networks.map(({ ssid }) => ssid)
  return { service, link, wifi, add, names, file }
}

t.test('Wi-Fi', { skip: missingBrowser('shell') || needs('wpa_cli', 'python3') }, async t => {
  const { link, wifi, add, names, file } = await start(t)
  const browser = await startBrowser(t)
  // A phone, held upright.
  const { page, offences } = await openTab(browser, link, page =>
    page.setViewport({ width: 375, height: 667, isMobile: true, hasTouch: true }),
  )
  await goTo(page, 'Settings')
  /** The password in the dialog that a press opens. */
  const entered = async (press: () => Promise<void>, dialog: string) => {
    await press()
    const value = await valueIn(page, dialog, 'Password')
    await click(page, dialog, 'Cancel')
    return value
  }
  const lab = () => entered(() => clickNamed(page, 'Join: Lab'), 'Join \u2068Lab\u2069')
  const scan = async () => {
    await click(page, 'Wi-Fi', 'Look for networks')
    await waitForText(page, '5 networks found.')
  }

  await t.test('a scan lists what is there, and names of strangers are text', async t => {
    await scan()
    const rows = await page.$$eval('ul.networks li', rows => rows.map(row => (row as HTMLElement).innerText))
    t.strictSame(
      rows.map(row => row.split('\n').filter(line => line !== '')),
      [
        ['\ufffd<img src=x onerror=alert(1)>', 'strong signal (-30 dBm) · open', 'Join'],
        ['Office', 'strong signal (-50 dBm) · password', 'Join'],
        ['Lab', 'good signal (-65 dBm) · password (WPA3)', 'Join'],
        ['Corp', 'good signal (-70 dBm) · company login, which cannot be set here'],
        ['Guests', 'weak signal (-85 dBm) · open', 'Join'],
      ],
    )
    t.equal(await page.evaluate(() => document.documentElement.scrollWidth), 375, 'nothing sticks out')
  })

  await t.test('a network is joined with its password, by the keyboard', async t => {
    await clickNamed(page, 'Join: Lab')
    await fill(page, 'Join \u2068Lab\u2069', 'Password', 'short')
    t.equal(await page.$eval('dialog .primary', button => (button as HTMLButtonElement).disabled), true)
    await fill(page, 'Join \u2068Lab\u2069', 'Password', LAB.password)
    await press(page, 'Enter')
    await waitForText(page, 'The device is in \u2068Lab\u2069')
    t.strictSame(await names(), ['Lab', 'Office'])
    t.equal((await wifi()).connected, 'Lab')
    await waitForText(page, 'connected · password')
    t.match(readFileSync(file, 'utf8'), LAB.password)
    t.notMatch(await page.content(), LAB.password)
    t.equal(await lab(), '')
  })

  await t.test('a wrong password is undone, and said', async t => {
    await page.setRequestInterception(true)
    const hurry = (request: HTTPRequest) =>
      void request.continue({ url: request.url().replace('Within=60', 'Within=8') })
    page.on('request', hurry)
    await clickNamed(page, 'Join: Lab')
    await fill(page, 'Join \u2068Lab\u2069', 'Password', 'not this one')
    await click(page, 'Join \u2068Lab\u2069', 'Join')
    await waitForText(page, 'Checking the connection')
    await waitForText(page, 'could not join')
    t.match(await wifi(), { connected: 'Lab', networks: [{ ssid: 'Lab', password: 'set' }] }, 'as before')
    t.match(readFileSync(file, 'utf8'), LAB.password)
    page.off('request', hurry)
    await page.setRequestInterception(false)
  })

  await t.test('what was entered can be looked at and corrected, until the view is left', async t => {
    t.equal(await lab(), 'not this one')
    t.equal(await entered(() => clickNamed(page, 'Join: Office'), 'Join \u2068Office\u2069'), '', 'of another network')
    const another = () => click(page, 'Wi-Fi', 'Another network…')
    t.equal(await entered(another, 'Join another network'), '', 'one that was found')
    await goTo(page, 'Sessions')
    await goTo(page, 'Settings')
    t.equal(await lab(), '')
  })

  await t.test('an open network is joined only when somebody says so', async t => {
    await clickNamed(page, 'Join: Guests')
    await click(page, 'Join \u2068Guests\u2069 without a password?', 'Cancel')
    t.strictSame(await names(), ['Lab', 'Office'])
    await click(page, 'Wi-Fi', 'Another network…')
    await fill(page, 'Join another network', 'Name of the network', 'Guests')
    await click(page, 'Join another network', 'Join')
    await waitForText(page, 'anybody near it can listen')
    await click(page, 'Join \u2068Guests\u2069 without a password?', 'Join anyway')
    await waitForText(page, 'The device is in \u2068Guests\u2069')
    t.strictSame(await names(), ['Guests', 'Lab', 'Office'])
  })

  await t.test('a network is preferred, another is removed', async t => {
    const confirm = await holdConfirmations(page)
    await clickNamed(page, 'Prefer: Lab')
    await waitForText(page, 'Checking the connection')
    t.notMatch(await page.evaluate(() => document.body.innerText), 'Saved.', 'not of this change')
    await confirm()
    await waitForText(page, 'Saved. The device can still be reached.')
    t.strictSame(await names(), ['Lab', 'Guests', 'Office'])
    await clickNamed(page, 'Remove: Guests')
    await add('Added by somebody else')
    await waitForText(page, 'Added by somebody else')
    // The device has the change before the page opens the dialog, which covers everything else.
    const isChecked = waitForText(page, 'Checking the connection')
    await click(page, 'Remove \u2068Guests\u2069?', 'Remove')
    await isChecked
    await waitForNoText(page, 'Checking the connection')
    t.strictSame(await names(), ['Lab', 'Office', 'Added by somebody else'])
  })

  await t.test('the signal is in the status', async () => {
    await goTo(page, 'Status')
    await waitForText(page, 'Lab, good signal (-65 dBm)')
  })
  t.strictSame(offences, [])
})

t.test(
  'a network that is already the first choice, and out of range, is not said to be joined',
  { skip: missingBrowser('shell') || needs('wpa_cli', 'python3') },
  async t => {
    const { link, service, wifi } = await start(t)
    const { networks } = await wifi()
    const far = { ssid: 'Far', password: '', hidden: true }
    t.equal((await service.patch({ wifi: { networks: [far, ...networks] } as never })).status, 200)
    const { page } = await openTab(await startBrowser(t), link)
    await goTo(page, 'Settings')
    await click(page, 'Wi-Fi', 'Another network…')
    await fill(page, 'Join another network', 'Name of the network', 'Far')
    await click(page, 'Join another network', 'Join')
    await click(page, 'Join \u2068Far\u2069 without a password?', 'Join anyway')
    await waitForText(page, 'The device knows \u2068Far\u2069 already')
    t.equal((await wifi()).connected, 'Office')
  },
)

t.test(
  'a person who may only read sees the networks and no button',
  { skip: missingBrowser('shell') || needs('wpa_cli', 'python3') },
  async t => {
    const { service } = await start(t)
    const browser = await startBrowser(t)
    const { page } = await openTab(browser, `${service.url}/#key=${service.token(['admin:r'])}`)
    await goTo(page, 'Settings')
    await waitForText(page, 'connected · password')
    t.strictSame(await page.$$eval('.networks button, .card h4 ~ .actions', found => found.length), 0)
  },
)
