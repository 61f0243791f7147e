import { writeFileSync } from 'node:fs'
import t from 'tap'
import * as Type from 'typebox/type'
import type { System } from '../../hal/os/system.ts'
import type { Setting } from '../../hal/setting.ts'
import { eventually } from '../support/eventually.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  choose,
  click,
  control,
  fill,
  goTo,
  press,
  valueIn,
  waitForNoText,
  waitForText,
  waitForValue,
} from './steps.ts'

const FILE = '/etc/coffee.json'
const TEN_KB = 10_240

const coffeeSchema = Type.Object(
  {
    brand: Type.String({ description: 'Who roasts it.', maxLength: 2 * TEN_KB }),
    strength: Type.Integer({ minimum: 1, maximum: 5 }),
    kind: Type.Enum(['espresso', 'filter']),
    milk: Type.Boolean(),
    temperatures: Type.Array(Type.Integer(), { maxItems: 3 }),
    grinders: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: Type.Object({ fineness: Type.Integer(), model: Type.String({ readOnly: true }) }),
    }),
    recipe: Type.Array(Type.Object({ water: Type.Integer() })),
  },
  { description: 'Coffee.', additionalProperties: false },
)
const COFFEE: Type.Static<typeof coffeeSchema> = {
  brand: '<img src=x onerror=alert(1)>',
  strength: 3,
  kind: 'filter',
  milk: false,
  temperatures: [80],
  grinders: { left: { fineness: 7, model: '\u202egnp.exe' } },
  recipe: [{ water: 200 }],
}

/** A setting that the page has never heard of, with a value of every kind. */
function coffee(system: System): Setting {
  const setting: Setting<typeof coffeeSchema> = {
    name: 'coffeeMachine',
    schema: coffeeSchema,
    files: [FILE],
    withoutActivate: 'it looks at the file',
    read: async () => JSON.parse((await system.readText(FILE)) ?? JSON.stringify(COFFEE)),
    fallback: async () => COFFEE,
    check: async ({ strength, milk }) =>
      strength === 5 && milk ? [{ pointer: '/strength', detail: 'too strong for milk' }] : [],
    write: next => system.writeAtomic(FILE, JSON.stringify(next)),
  }
  return setting as unknown as Setting
}

t.test('settings', { skip: missingBrowser('shell') }, async t => {
  const { service, link } = await startPageDevice(t, { setting: coffee })
  const browser = await startBrowser(t)
  const value = async (name: string) => (await service.system()).value[name]
  const { page, offences } = await openTab(browser, link)
  await goTo(page, 'Settings')

  await t.test('a text is changed, and the change is everywhere on the page', async t => {
    await fill(page, 'General', 'Device name', 'Salle d’été')
    await waitForText(page, 'Unsaved changes')
    await click(page, 'General', 'Save')
    await waitForText(page, 'Saved.')
    await waitForNoText(page, 'Unsaved changes')
    t.equal(await value('deviceName'), 'Salle d’été')
    t.equal(await page.$eval('h1', heading => heading.textContent), 'Salle d’été')
    t.equal(await page.title(), 'Salle d’été – Settings')
  })

  await t.test('where the name is blank, the device is still called something', async () => {
    await service.patch({ deviceName: ' ' })
    await page.waitForFunction(() => document.querySelector('h1')?.textContent === location.hostname, { polling: 50 })
    await service.patch({ deviceName: 'Salle d’été' })
    await waitForValue(page, 'General', 'Device name', 'Salle d’été')
  })

  await t.test('a refusal is said at the field that the pointer names', async t => {
    await fill(page, 'General', 'Device name', 'x'.repeat(65))
    await press(page, 'Enter')
    await waitForText(page, 'Not saved. Each mistake is explained at its field.')
    const input = await control(page, 'General', 'Device name')
    t.equal(await input.evaluate(element => element.getAttribute('aria-invalid')), 'true')
    t.equal(await input.evaluate(element => element === document.activeElement), true, 'has the focus')
    const said = await input.evaluate(element =>
      (element.getAttribute('aria-describedby') ?? '').split(' ').map(id => document.getElementById(id)?.textContent),
    )
    t.match(said.join(' '), /must not have more than 64 characters/)
    await click(page, 'General', 'Discard')
    await waitForNoText(page, 'more than 64')
    t.equal(await valueIn(page, 'General', 'Device name'), 'Salle d’été')
    t.equal(await value('deviceName'), 'Salle d’été')
  })

  await t.test('a text is chosen among what the device would accept', async t => {
    await choose(page, 'General', 'Time zone', 'Other…')
    await page.keyboard.type('Mars/Olympus')
    await click(page, 'General', 'Save')
    await waitForText(page, 'no time zone of that name')
    await click(page, 'General', 'Discard')
    await choose(page, 'General', 'Time zone', 'London')
    await click(page, 'General', 'Save')
    await waitForNoText(page, 'Unsaved changes')
    t.equal(await value('timezone'), 'Europe/London')
  })

  await t.test('a number is entered, slid, and refused', async t => {
    const label = 'Time to decide, in seconds'
    await fill(page, 'Moderation', label, '601')
    await click(page, 'Moderation', 'Save')
    await waitForText(page, 'Enter a whole number from 30 to 600.')
    await fill(page, 'Moderation', label, '45')
    await click(page, 'Moderation', 'Save')
    await waitForNoText(page, 'Unsaved changes')
    t.match(await value('moderation'), { timeoutS: 45 })
    await page.focus('.card input[type=range]')
    await press(page, 'End')
    t.equal(await valueIn(page, 'Moderation', label), '600')
    await click(page, 'Moderation', 'Save')
    await waitForNoText(page, 'Unsaved changes')
    t.match(await value('moderation'), { timeoutS: 600 })
  })

  await t.test('a list grows, is refused at one of its items, and shrinks', async t => {
    await click(page, 'Network time', 'Add')
    await page.keyboard.type('0.pool.ntp.org')
    await click(page, 'Network time', 'Add')
    await page.keyboard.type('not a server')
    await click(page, 'Network time', 'Save')
    await waitForText(page, 'Not saved. Each mistake is explained at its field.')
    t.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Servers, 2')
    await click(page, 'Network time', 'Remove')
    t.equal(
      await page.evaluate(() => document.querySelectorAll('.list input').length),
      2,
      'with the temperature of the coffee',
    )
    await click(page, 'Network time', 'Discard')
    t.strictSame(await value('ntp'), { enabled: true, servers: [] })
  })

  await t.test('a change by somebody else appears, but what is being typed stays', async t => {
    await fill(page, 'AirPlay', 'Name', 'My name for i')
    await service.patch({ airplay: { name: 'Theirs', access: 'pin' } })
    await waitForText(page, 'Changed elsewhere to Theirs.')
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'My name for i')
    const input = await control(page, 'AirPlay', 'Name')
    t.equal(await input.evaluate(element => element === document.activeElement), true, 'the cursor stays')
    await page.keyboard.type('t')
    await waitForValue(page, 'AirPlay', 'Access', '1')
    await click(page, 'AirPlay', 'Save')
    await waitForNoText(page, 'Changed elsewhere')
    t.match(await value('airplay'), { name: 'My name for it', access: 'pin' })

    await fill(page, 'AirPlay', 'Name', 'Mine')
    writeFileSync(service.path('etc/uxplayrc'), 'n Elsewhere\nnh\n')
    await waitForText(page, 'Changed elsewhere to Elsewhere.')
    await click(page, 'AirPlay', 'Use that')
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'Elsewhere')
    await waitForNoText(page, 'Unsaved changes')
  })

  await t.test('two tabs show each other’s changes', async t => {
    const other = await openTab(page.browserContext(), link)
    await goTo(other.page, 'Settings')
    await fill(other.page, 'General', 'Device name', 'Two tabs')
    await click(other.page, 'General', 'Save')
    await waitForText(other.page, 'Saved.')
    await other.page.close()
    await page.bringToFront()
    await waitForValue(page, 'General', 'Device name', 'Two tabs')
    t.strictSame(other.offences, [])
  })

  await t.test('a setting that the page has never heard of has a form of its own', async t => {
    const card = 'Coffee machine'
    t.equal(await valueIn(page, card, 'Brand'), COFFEE.brand, 'text is text')
    await fill(page, card, 'Strength', '5')
    await choose(page, card, 'Kind', 'espresso')
    await (await control(page, card, 'Milk')).click()
    await click(page, card, 'Save')
    await waitForText(page, 'Too strong for milk')
    await fill(page, card, 'Strength', '4')
    await fill(page, card, 'Fineness', '9')
    await click(page, card, 'Add')
    await page.keyboard.press('Backspace')
    await page.keyboard.type('95')
    await fill(page, card, 'Recipe', '[{"water":')
    await click(page, card, 'Save')
    await waitForText(page, 'Enter valid JSON.')
    await fill(page, card, 'Recipe', '[{"water": 180}]')
    await click(page, card, 'Save')
    await waitForNoText(page, 'Unsaved changes')
    t.strictSame(await value('coffeeMachine'), {
      ...COFFEE,
      strength: 4,
      kind: 'espresso',
      milk: true,
      temperatures: [80, 95],
      grinders: { left: { fineness: 9, model: '\u202egnp.exe' } },
      recipe: [{ water: 180 }],
    })
  })

  await t.test('entries that are not saved are not lost without a question', async t => {
    const asked: string[] = []
    page.on('dialog', dialog => {
      asked.push(dialog.type())
      dialog.dismiss()
    })
    await fill(page, 'AirPlay', 'Name', 'Not saved yet')
    // A reload that was refused does not end.
    page.reload().catch(() => undefined)
    await eventually(() => asked.length > 0)
    t.strictSame(asked, ['beforeunload'])
    await page.locator('header button').click()
    await waitForText(page, 'Your changes are not saved.')
    await click(page, 'Sign out?', 'Cancel')
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'Not saved yet')
    await page.evaluate(() => {
      location.hash = '#key=another'
    })
    await waitForText(page, 'Your changes are not saved.')
    t.notMatch(page.url(), 'another', 'the address can be shown')
    await click(page, 'Use the link?', 'Cancel')
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'Not saved yet')
    await click(page, 'AirPlay', 'Discard')
    await page.reload()
    t.strictSame(asked, ['beforeunload'], 'nothing to lose')
  })

  await t.test('hostile texts are text, and spread nowhere', async t => {
    const brand = `<img src=x onerror=alert(1)>\u202e${'W'.repeat(TEN_KB)}`
    await service.patch({ deviceName: '<b>\u202eevil</b>' })
    writeFileSync(service.path(FILE), JSON.stringify({ ...COFFEE, brand }))
    await waitForValue(page, 'Coffee machine', 'Brand', brand)
    t.equal(await page.$eval('h1', heading => heading.textContent), '<b>\u202eevil</b>')
    t.equal(await page.$$eval('img, h1 b', found => found.length), 0)
    t.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      'nothing is wider than the page',
    )
  })
  t.strictSame(offences, [])
})
