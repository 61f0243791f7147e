/** In every state of an update, the page says how long it takes or until when it waits, and says everything once. */
import t from 'tap'
import { startUpdateDevice } from '../support/update-device.ts'
import { missingBrowser, openTab, PHONE, startBrowser } from './browser.ts'
import { page as built } from './device.ts'
import { goTo } from './steps.ts'
import { CLOCK, UPDATE_VIEWS } from './update-views.ts'

/** Characters from which on a sentence is more than a label. */
const SENTENCE = 25

t.test('the states of an update', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  for (const { name, prepare, come, takes, not } of UPDATE_VIEWS)
    await t.test(name, async t => {
      const device = await startUpdateDevice(t, prepare, built, CLOCK)
      const { page } = await openTab(browser, device.link, page => page.setViewport(PHONE))
      await goTo(page, 'Update')
      await come(page, device)
      const text = await page.evaluate(() => document.body.innerText)
      if (takes) t.match(text.replaceAll('\n', ' '), takes)
      if (not) t.notMatch(text, not)
      const sentences = text.split(/\n|(?<=[.:]) /).filter(({ length }) => length > SENTENCE)
      const twice = sentences.filter((sentence, at) => sentences.indexOf(sentence) !== at)
      t.strictSame(twice, [], 'nothing is told twice')
      t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is too wide')
      await page.browserContext().close()
      device.rauc.release()
    })
})
