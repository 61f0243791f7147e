/** Updating the firmware: sending a bundle, installing it, and the version after that. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HTTPRequest, Page } from 'puppeteer-core'
import t, { type Test } from 'tap'
import type { Page as BuiltPage } from '../../src/api/built-page.ts'
import { ManualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { MIB, startUpdateDevice as start, type UpdateDevice } from '../support/update-device.ts'
import { missingBrowser, openTab, PHONE, POLL, startBrowser } from './browser.ts'
import { page as built, startPageDevice } from './device.ts'
import {
  chooseFile,
  choose as choosing,
  click,
  control,
  fill,
  goTo,
  navigation,
  signOutDuring,
  tryToReload,
  valueIn,
  waitForNoText,
  waitForText,
} from './steps.ts'

const startUpdateDevice = (t: Test, prepare?: Parameters<typeof start>[1]): Promise<UpdateDevice> =>
  start(t, prepare, built)

const CARD = 'New version'
const VERSIONS = 'This device'
const UPDATE = 'Update'
const choose = (page: Page, path: string) => chooseFile(page, CARD, path)
const FORGED = 'signature verification failed: Verify error: self-signed certificate'

t.test('updates', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const folder = temporaryFolder(t)
  const fileOf = (name: string, bytes: number) => {
    const path = join(folder, name)
    writeFileSync(path, Buffer.alloc(bytes, name))
    return path
  }
  const open = async (link: string) => {
    const tab = await openTab(browser, link, page => page.setViewport(PHONE))
    await goTo(tab.page, 'Update')
    return tab
  }
  const small = fileOf('receiver-1.1.0.raucb', MIB)

  await t.test('a bundle is sent, installed and started, on a phone', async t => {
    const device = await startUpdateDevice(t)
    const { rauc, link, jobs } = device
    device.says({ version: '1.1.0' })
    const { page, offences } = await open(link)
    t.match(await facts(page), ['Running: 1.0.0, system A', 'Other system: empty'])
    await choose(page, small)
    await waitForText(page, 'Version 1.1.0 is here, and can be installed.')
    await click(page, CARD, 'Install…')
    await waitForText(page, 'returns to the old version by itself')
    await choosing(page, 'Install 1.1.0?', 'Restart', 'Later, by hand')
    await click(page, 'Install 1.1.0?', 'Install')
    await waitForText(page, 'Version 1.1.0 is being installed')
    rauc.percent = 72
    await waitForText(page, '72 %')
    t.strictSame(await buttons(page), [], 'nothing can come in between')
    rauc.succeed('1.1.0')
    await waitForText(page, 'Version 1.1.0 is installed. It starts when the device restarts.')
    t.strictSame(await buttons(page), ['Restart now…', 'Discard…'])
    await click(page, CARD, 'Restart now…')
    await click(page, 'Restart now: \u2068Meeting Room 4\u2069?', 'Restart now')
    await eventually(async () => jobs.includes('reboot'))
    await device.restartInto('B', '1.1.0')
    await waitForText(page, 'This version is on trial for')
    t.match(await facts(page), ['Running: 1.1.0, system B', 'Other system: 1.0.0'])
    t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is too wide')
    t.strictSame(
      offences.filter(offence => !offence.includes('ERR_')),
      [],
    )
  })

  await t.test('a connection that breaks off costs nothing that has arrived', async t => {
    const device = await startUpdateDevice(t)
    const { service, network, link } = device
    device.says({ version: '1.1.0' })
    const { page } = await open(link)
    const sent: (string | undefined)[] = []
    page.on('request', request => {
      if (request.method() === 'PUT') sent.push(request.headers()['content-range'])
    })
    const path = fileOf('broken.raucb', 24 * MIB)
    network.breaksAfter = 8 * MIB
    await choose(page, path)
    await waitForText(page, 'Version 1.1.0 is here')
    t.equal(sent.length, 2)
    t.match(sent[1], /^bytes [1-9]\d*-25165823\/25165824$/)
    t.ok(readFileSync(service.path('data/update/bundle')).equals(readFileSync(path)), 'it is whole')
  })

  await t.test('a token that is refused only for now ends no upload', async t => {
    const clock = new ManualClock()
    const device = await start(t, undefined, built, clock)
    device.says({ version: '1.1.0' })
    const token = device.service.token(['admin:rw'], { nbf: Math.floor(Date.now() / 1000) - 60 })
    const { page } = await open(device.link.replace(device.service.key, token))
    await waitForText(page, 'A file that ends in .raucb.')
    clock.step(-3_600_000)
    const refused = page.waitForResponse(
      response => response.url().endsWith('/update/bundle') && response.status() === 401,
    )
    await choose(page, small)
    await refused
    clock.step(3_600_000)
    await waitForText(page, 'Version 1.1.0 is here')
  })

  await t.test('after a reload, the same file goes on, and another one does not', async t => {
    const device = await startUpdateDevice(t)
    const { network, link } = device
    device.says({ version: '1.1.0' })
    const { page } = await open(link)
    const path = fileOf('half.raucb', 24 * MIB)
    Object.assign(network, { breaksAfter: 8 * MIB, staysDown: true })
    await choose(page, path)
    await eventually(async () => network.isDown)
    t.strictSame(await tryToReload(page), ['beforeunload'], 'it is still being sent')
    await page.locator('header button').click()
    await waitForText(page, 'The file is still being sent.')
    await click(page, 'Sign out?', 'Cancel')
    network.isDown = false
    page.once('dialog', dialog => dialog.accept())
    await page.reload()
    await waitForText(page, 'of 24 MiB are here. To go on, choose \u2068half.raucb\u2069 again.')
    // As after a file of another size, before somebody else began this one.
    await page.evaluate(() => localStorage.setItem('receiverd / file', '5 another.raucb'))
    await page.reload()
    await waitForText(page, 'of 24 MiB are here. To go on, choose the same file again.')
    await choose(page, small)
    await waitForText(page, 'This is another file.')
    await choose(page, path)
    await waitForText(page, 'Version 1.1.0 is here')
    await click(page, CARD, 'Discard')
    await waitForText(page, 'A file that ends in .raucb.')
  })

  await t.test('a file that is refused is explained, and an older one is asked for', async t => {
    const device = await startUpdateDevice(t)
    const { link, rauc } = device
    device.says(FORGED)
    const { page } = await open(link)
    await choose(page, small)
    await waitForText(page, 'not signed with a key that this device trusts')
    device.says({ version: '0.9.0' })
    await choose(page, small)
    await waitForText(page, 'Version 0.9.0 is here')
    await waitForNoText(page, 'not signed')
    await click(page, CARD, 'Install…')
    await click(page, 'Install 0.9.0?', 'Install')
    await waitForText(page, 'It is older than the version that runs')
    t.notOk(rauc.did.some(call => call.startsWith('InstallBundle')))
    await click(page, 'Install 0.9.0 anyway?', 'Install it anyway')
    await waitForText(page, 'Version 0.9.0 is being installed')
    rauc.fail('write error')
    await waitForText(page, 'RAUC could not install the bundle')
    await waitForText(page, 'Version 0.9.0 was not installed.')
  })

  await t.test('nobody is asked about an older one after signing out', async t => {
    const device = await startUpdateDevice(t)
    device.says({ version: '0.9.0' })
    const { page } = await open(device.link)
    await choose(page, small)
    await waitForText(page, 'Version 0.9.0 is here')
    await click(page, CARD, 'Install…')
    const install = () => click(page, 'Install 0.9.0?', 'Install')
    t.strictSame(await signOutDuring(page, '/update/install', install), [])
  })

  await t.test('a fallback is shown on every view until somebody has read it', async t => {
    const last = { version: '1.1.0', outcome: 'rolled back', reason: 'nginx does not answer by TLS' }
    const at = '2026-11-25T01:00:00Z'
    const { link } = await startUpdateDevice(t, ({ write }) =>
      write('data/update/last.json', JSON.stringify({ ...last, at })),
    )
    const { page } = await openTab(browser, link)
    await waitForText(page, 'Version 1.1.0 did not work.')
    await waitForText(page, 'Reason: nginx does not answer by TLS.')
    await page.locator('::-p-aria([name="I have read this"][role="button"])').click()
    await waitForNoText(page, 'Version 1.1.0 did not work.')
    await page.reload()
    await goTo(page, 'Update')
    t.equal(await page.$$eval('.banner:not([hidden])', found => found.length), 0)
    await waitForText(page, 'Version 1.1.0 did not work.')
  })

  await t.test('after going back, the page says so, and leads to the newer version again', async t => {
    const last = { version: '1.1.0', outcome: 'rolled back', reason: 'asked for', at: '2026-11-25T01:00:00Z' }
    const { link } = await startUpdateDevice(t, ({ rauc, write }) => {
      Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '1.1.0' })
      write('data/update/last.json', JSON.stringify(last))
    })
    const { page } = await open(link)
    await waitForText(page, 'The device went back from version 1.1.0, as somebody asked it to.')
    t.equal(await page.$$eval('.banner:not([hidden])', found => found.length), 0, 'which is no reason for a warning')
    await click(page, VERSIONS, 'Go to 1.1.0…')
    await click(page, 'Go to 1.1.0: \u2068Meeting Room 4\u2069?', 'Cancel')
  })

  await t.test('an installed version is discarded before it starts', async t => {
    const device = await startUpdateDevice(t)
    const { link, rauc } = device
    device.says({ version: '1.1.0' })
    const { page } = await open(link)
    await choose(page, small)
    await click(page, CARD, 'Install…')
    await click(page, 'Install 1.1.0?', 'Install')
    await waitForText(page, 'Version 1.1.0 is being installed')
    rauc.succeed('1.1.0')
    await click(page, CARD, 'Discard…')
    await waitForText(page, 'It will not start. The device stays with 1.0.0.')
    await click(page, 'Discard 1.1.0?', 'Discard 1.1.0')
    await waitForText(page, 'Version 1.1.0 was discarded.')
    t.match(await facts(page), ['Running: 1.0.0, system A', 'Other system: 1.1.0 cannot be started'])
    t.equal(await page.$$eval('.banner:not([hidden])', found => found.length), 0, 'which is no reason for a warning')
    t.strictSame(await buttons(page), ['Choose a file…'])
    t.equal(rauc.did.at(-1), 'Mark bad rootfs.1')
  })

  await t.test('a question about a version that others have replaced is asked again about the other one', async t => {
    const device = await startUpdateDevice(t)
    const { link, rauc, service } = device
    const replace = async (version: string) => {
      device.says({ version })
      const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
      await service.fetch('/update/bundle', { method: 'DELETE' })
      const answer = await service.fetch('/update/bundle', { method: 'PUT', headers, body: readFileSync(small) })
      t.equal(answer.status, 201)
    }
    const install = async (version: string) => {
      await replace(version)
      t.equal((await service.fetch('/update/install', { method: 'POST' })).status, 202)
      rauc.succeed(version)
      await waitForText(page, `Version ${version} is installed.`)
    }
    await replace('1.0.8')
    const { page } = await open(link)
    await click(page, CARD, 'Install…')
    await replace('1.0.9')
    await waitForText(page, 'Version 1.0.9 is here')
    const confirm = page.locator('dialog button::-p-text(Install)')
    await confirm.click({ count: 2, delay: 60 })
    await click(page, 'Install 1.0.9?', 'Cancel')
    t.notOk(rauc.did.some(call => call.startsWith('InstallBundle')))
    await replace('0.8.0')
    await waitForText(page, 'Version 0.8.0 is here')
    await click(page, CARD, 'Install…')
    await click(page, 'Install 0.8.0?', 'Install')
    await waitForText(page, 'Install 0.8.0 anyway?')
    await replace('0.7.0')
    await waitForText(page, 'Version 0.7.0 is here')
    await page.focus('dialog .danger')
    for (let strokes = 0; strokes < 2; strokes++) await page.keyboard.press('Enter')
    await click(page, 'Install 0.7.0 anyway?', 'Cancel')
    t.notOk(rauc.did.some(call => call.startsWith('InstallBundle')))
    await install('1.1.0')
    await click(page, CARD, 'Discard…')
    t.equal((await service.fetch('/update/install', { method: 'DELETE' })).status, 204)
    await install('1.2.0')
    await click(page, 'Discard 1.1.0?', 'Discard 1.1.0')
    await click(page, 'Discard 1.2.0?', 'Discard 1.2.0')
    await waitForText(page, 'Version 1.2.0 was discarded.')
  })

  await t.test('a question about going back, when others have sent the device elsewhere, is asked again', async t => {
    const device = await startUpdateDevice(t, ({ rauc }) =>
      Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '0.9.0' }),
    )
    const { link, rauc } = device
    const { page } = await open(link)
    await click(page, VERSIONS, 'Go back to 0.9.0…')
    await waitForText(page, 'Go back to 0.9.0: \u2068Meeting Room 4\u2069?')
    Object.assign(rauc.slots['rootfs.1'] ?? {}, { 'bundle.version': '0.8.0' })
    await device.restartInto('A', '1.0.0')
    await waitForText(page, 'Go back to 0.8.0…')
    await click(page, 'Go back to 0.9.0: \u2068Meeting Room 4\u2069?', 'Go back to 0.9.0')
    await click(page, 'Go back to 0.8.0: \u2068Meeting Room 4\u2069?', 'Cancel')
    t.notOk(rauc.did.some(call => call.startsWith('Mark active')))
  })

  await t.test('an error of this page goes when others begin something', async t => {
    const device = await startUpdateDevice(t)
    const { link, service } = device
    device.says({ version: '1.0.0' })
    const { page } = await open(link)
    await choose(page, fileOf('empty.raucb', 0))
    await waitForText(page, 'The body is empty.')
    const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
    const answer = await service.fetch('/update/bundle', { method: 'PUT', headers, body: readFileSync(small) })
    t.equal(answer.status, 201)
    await waitForText(page, 'Version 1.0.0 is here. The same version runs already.')
    await waitForNoText(page, 'The body is empty.')
  })

  await t.test('going back asks first; a person who may only read sees no button', async t => {
    const { link, rauc, service, network } = await startUpdateDevice(t, ({ rauc }) =>
      Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '0.9.0' }),
    )
    const { page: reader } = await open(`http://127.0.0.1:${network.port}/#key=${service.token(['admin:r'])}`)
    t.strictSame(await buttons(reader), [])
    const { page } = await open(link)
    await click(page, VERSIONS, 'Go back to 0.9.0…')
    await click(page, 'Go back to 0.9.0: \u2068Meeting Room 4\u2069?', 'Cancel')
    t.notOk(rauc.did.some(call => call.startsWith('Mark')))
    await page.focus('::-p-aria([name="Go back to 0.9.0…"][role="button"])')
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog')
    for (let steps = 0; steps < 2; steps++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await eventually(async () => rauc.did.includes('Mark active rootfs.1'))
  })

  await t.test('the window is set and cleared', async t => {
    const { link, service } = await startUpdateDevice(t)
    const { page } = await open(link)
    await goTo(page, 'Settings')
    const saved = async () => ((await service.system()).value.update as { window: unknown }).window
    const field = (label: string) => control(page, UPDATE, label)
    // The focus comes back to the part that had it: hours, minutes, or half of the day.
    const focus = async (label: string) => {
      await (await field(label)).focus()
      for (let part = 0; part < 2; part++) await page.keyboard.press('ArrowLeft')
    }
    const type = async (label: string, keys: string) => {
      await focus(label)
      await page.keyboard.type(keys)
    }
    t.equal(await (await field('From')).evaluate(input => input.type), 'time')
    t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is too wide')
    await type('From', '02')
    await click(page, UPDATE, 'Save')
    await waitForText(page, 'Enter a whole time, or none.')
    await click(page, UPDATE, 'Discard')
    await waitForNoText(page, 'Unsaved changes')
    await type('From', '0200a')
    await click(page, UPDATE, 'Save')
    await waitForText(page, 'be set, because from is set')
    const invalid = await (await field('To')).evaluate(input => input.getAttribute('aria-invalid'))
    t.equal(invalid, 'true', 'said at its field')
    await type('To', '0430a')
    await waitForNoText(page, 'be set, because')
    await (await field('Saturday')).click()
    await click(page, UPDATE, 'Save')
    await waitForText(page, 'Saved.')
    t.strictSame(await saved(), { days: ['sat'], from: '02:00', to: '04:30' })
    for (const label of ['From', 'To']) {
      await focus(label)
      for (const key of ['Backspace', 'ArrowRight', 'Backspace', 'ArrowRight', 'Backspace'] as const)
        await page.keyboard.press(key)
    }
    await click(page, UPDATE, 'Save')
    await eventually(async () => JSON.stringify(await saved()) === '{"days":["sat"],"from":"","to":""}')
  })

  await t.test('an open page becomes that of the new version, unless something would be lost', async t => {
    const device = await startUpdateDevice(t)
    const { page } = await open(device.link)
    const [old = ''] = built.assets.map(({ name }) => name)
    t.equal(await scriptOf(page), old)
    await sleepUntilUpdated(page, device)
    await waitForText(page, '1.1.0, system B')
    t.equal(await scriptOf(page), 'page-0011.js', 'although the phone has slept')
    t.equal(await page.$$eval('.banner:not([hidden])', found => found.length), 0)

    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Being typed')
    await device.restartInto('A', '1.0.0', built)
    await waitForText(page, 'another version of this page')
    t.equal(await valueIn(page, 'General', 'Device name'), 'Being typed')
    page.on('dialog', dialog => dialog.accept())
    await Promise.all([page.waitForNavigation(), page.locator('button::-p-text(Reload)').click()])
    await waitForText(page, 'Meeting Room 4')
    t.equal(await scriptOf(page), old)
  })

  await t.test('so does a page that has heard nothing yet', async t => {
    const device = await startUpdateDevice(t)
    const held: HTTPRequest[] = []
    const { page } = await openTab(browser, device.link, async page => {
      await page.setRequestInterception(true)
      page.on('request', request => {
        const isFirst = request.url().endsWith('/events') && held.length === 0
        if (isFirst) held.push(request)
        else request.continue()
      })
    })
    await eventually(() => held[0])
    await sleepUntilUpdated(page, device)
    t.equal(await scriptOf(page), 'page-0011.js')
  })

  await t.test('a device that cannot be updated has no such view', async t => {
    const { link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await page.waitForSelector('main h2')
    t.notOk((await navigation(page)).includes('Update'))
  })
})

/** The phone sleeps while the device is updated, and shows the page of the new version soon after. */
async function sleepUntilUpdated(page: Page, device: UpdateDevice): Promise<void> {
  await page.evaluate(() => dispatchEvent(new Event('pagehide')))
  await device.restartInto('B', '1.1.0', pageNamed('page-0011.js'))
  const loaded = page.waitForNavigation()
  await page.evaluate(() => dispatchEvent(new Event('pageshow')))
  await loaded
}

function scriptOf(page: Page): Promise<string> {
  return page.$eval('script', ({ src }) => src.slice(src.lastIndexOf('/') + 1))
}

/** The page, as another version has it. */
function pageNamed(script: string): BuiltPage {
  const [old, ...rest] = built.assets
  if (!old) throw new Error('the page has no script')
  return { html: () => built.html().replace(old.name, script), assets: [{ ...old, name: script }, ...rest] }
}

/** The facts about the two systems, once the page has them. */
async function facts(page: Page): Promise<readonly string[]> {
  await page.waitForFunction(() => document.querySelector('.facts dd')?.textContent, POLL)
  return page.$$eval('.facts > div', rows =>
    rows.map(row => [...row.children].map(part => part.textContent).join(': ')),
  )
}

/** The buttons of the view that can be pressed. */
function buttons(page: Page): Promise<readonly (string | null)[]> {
  return page.$$eval('main button', found => found.filter(each => each.checkVisibility()).map(each => each.textContent))
}
