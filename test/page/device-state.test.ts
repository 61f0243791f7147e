import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { livelySystem, startPageDevice } from './device.ts'
import { click, download, enter, goTo, waitForText } from './steps.ts'

t.test('status and log', { skip: missingBrowser('shell') }, async t => {
  const { service, link } = await startPageDevice(t, livelySystem(t))
  const browser = await startBrowser(t)
  const { page, offences } = await openTab(browser, link)

  await t.test('the status of the device, and what it is', async () => {
    await goTo(page, 'Status')
    for (const text of ['Clock is set', 'Storage in use', 'Raspberry Pi 4 Model B Rev 1.5', 'Receiver OS'])
      await waitForText(page, text)
  })

  await t.test('that UxPlay does not listen', async () => {
    mkdirSync(service.path('usr/lib/receiverd'), { recursive: true })
    writeFileSync(service.path('usr/lib/receiverd/uxplay'), '')
    await waitForText(page, 'No. If that does not change, the log says why.')
  })

  await t.test('a name is typed as it is seen', async t => {
    const name = 'Ro\u00ado\u2060m\u202e \u2069 of  A\u180en\u200dn'
    t.equal((await service.patch({ deviceName: name })).status, 200)
    await click(page, 'Maintenance', 'Factory reset…')
    const isDisabled = () => page.$eval('dialog .danger', element => (element as HTMLButtonElement).disabled)
    t.ok(await isDisabled())
    await enter(page, 'Type “\u2068Room of Ann\u2069” to confirm', 'Room of Ann')
    t.notOk(await isDisabled())
    await click(page, `Factory reset: \u2068${name.replace(/[\u202e\u2069]/g, '')}\u2069?`, 'Cancel')
    t.equal((await service.patch({ deviceName: '\u200b\u2060' })).status, 200)
    await page.waitForFunction(() => document.querySelector('h1')?.textContent === location.hostname)
    t.equal((await service.patch({ deviceName: 'Meeting Room 4' })).status, 200)
  })

  await t.test('the log is filtered, searched and downloaded', async t => {
    const items = () => page.$$eval('.log li', found => found.map(item => item.textContent ?? ''))
    await goTo(page, 'Log')
    await waitForText(page, '8 lines, newest first.')
    t.match((await items())[1], /Failed to process frame <img src=x onerror=alert\(1\)>$/)
    t.equal(await page.$$eval('.log img', found => found.length), 0)
    await enter(page, 'Contains', 'uxplay')
    await waitForText(page, '3 lines')
    await enter(page, 'Contains', ' and nothing else')
    await waitForText(page, 'No matching lines.')

    const asked = page.waitForRequest(request => request.url().includes('priority=3'))
    await page.select('.filters select:nth-of-type(1)', '')
    await page.evaluate(() => {
      const select = [...document.querySelectorAll('.filters select')][1] as HTMLSelectElement
      select.value = '3'
      select.dispatchEvent(new Event('change'))
    })
    t.match(new URL((await asked).url()).search, '?lines=200&priority=3')

    const folder = temporaryFolder(t)
    await download(page, folder, () => page.locator('button::-p-text(Download)').click())
    const [name = ''] = readdirSync(folder)
    t.equal(name, 'Meeting Room 4.log')
    t.match(readFileSync(join(folder, name), 'utf8'), 'listening on http://192.0.2.40:8080')
  })
  await t.test('a slow answer does not replace a later one', async t => {
    await page.locator('input[type=search]').fill('')
    await page.evaluate(() => {
      const real = fetch
      globalThis.fetch = async (path, options) => {
        const answer = await real(path, options)
        if (String(path).includes('lines=100')) await new Promise(resolve => setTimeout(resolve, 500))
        return String(path).includes('lines=500') ? new Response('[]') : answer
      }
      const select = [...document.querySelectorAll('.filters select')][2] as HTMLSelectElement
      for (const value of ['100', '500']) {
        select.value = value
        select.dispatchEvent(new Event('change'))
      }
    })
    await waitForText(page, 'No matching lines.')
    await new Promise(resolve => setTimeout(resolve, 1_000))
    t.strictSame(await page.$$eval('.log li', found => found.length), 0)
  })
  await t.test('the log is followed', async t => {
    await page.evaluate(() => location.reload())
    await waitForText(page, '8 lines')
    const asked = () => page.waitForRequest(request => request.url().includes('/logs?'))
    await page.locator('input[role=switch]').click()
    await asked()
    const first = await page.$('.log li')
    t.ok(await asked(), 'and again')
    await asked()
    t.ok(await first?.evaluate(line => line.isConnected), 'a line that is being read, or copied, stays')
  })
  t.equal(service.said.filter(line => line.includes(service.key)).length, 0, 'no key in the log')
  t.strictSame(offences, [])
})
