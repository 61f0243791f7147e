/** Steps of a person on the page, by what they see. */
import type { Dialog, ElementHandle, HTTPRequest, Page } from 'puppeteer-core'
import { eventually } from '../support/eventually.ts'
import { POLL } from './browser.ts'

/** Waits until a text can be read. */
export async function waitForText(page: Page, text: string): Promise<void> {
  await page
    .waitForFunction(text => document.body.innerText.includes(text), POLL, text)
    .catch(error => failWith(page, `"${text}" does not appear`, error))
}

export async function waitForNoText(page: Page, text: string): Promise<void> {
  await page
    .waitForFunction(text => !document.body.innerText.includes(text), POLL, text)
    .catch(error => failWith(page, `"${text}" stays`, error))
}

async function failWith(page: Page, what: string, cause: unknown): Promise<never> {
  const shown = await page.evaluate(() => document.body.innerText)
  throw new Error(`${what} on the page:\n${shown}`, { cause })
}

/** Reloads the page, but stays if the browser asks whether to leave. @returns the kinds of questions. */
export async function tryToReload(page: Page): Promise<readonly string[]> {
  let stay: (dialog: Dialog) => unknown = () => undefined
  const asked = new Promise<readonly string[]>(resolve => {
    stay = async dialog => {
      await dialog.dismiss()
      // Until the page has gone on, the browser drops another reload together with this one.
      await page.evaluate(() => undefined)
      resolve([dialog.type()])
    }
    page.once('dialog', stay)
  })
  // A reload that was refused does not end.
  const reloaded = page.reload().then(
    () => [],
    () => [],
  )
  return Promise.race([asked, reloaded]).finally(() => page.off('dialog', stay))
}

/** Opens a view by its link. */
export async function goTo(page: Page, title: string): Promise<void> {
  const link = await page.waitForSelector(`nav a::-p-text(${title})`)
  await link?.click()
  await page
    .waitForFunction(title => document.querySelector('main h2')?.textContent === title, POLL, title)
    .catch(error => failWith(page, `${title} does not open`, error))
}

/** The control of a label in a card, which its heading names. */
export async function control(page: Page, card: string, label: string): Promise<ElementHandle<HTMLInputElement>> {
  const found = await page.waitForFunction(
    (card, label) => {
      const cards = [...document.querySelectorAll('.card, dialog')]
      const place = cards.find(element => element.querySelector('h2, h3')?.textContent === card)
      const labels = [...(place?.querySelectorAll('label') ?? [])]
      const id = labels.find(element => element.textContent === label)?.htmlFor
      return id ? document.getElementById(id) : undefined
    },
    POLL,
    card,
    label,
  )
  return found as ElementHandle<HTMLInputElement>
}

/** Types a value in place of the one that is there. */
export async function fill(page: Page, card: string, label: string, value: string): Promise<void> {
  const input = await control(page, card, label)
  await input.focus()
  await input.evaluate(element => element.select())
  await page.keyboard.press('Backspace')
  await input.type(value)
}

export async function choose(page: Page, card: string, label: string, text: string): Promise<void> {
  const select = await control(page, card, label)
  const value = await select.evaluate(
    (element, text) =>
      [...element.querySelectorAll('option')].find(option => option.textContent === text)?.value ?? 'none',
    text,
  )
  await select.select(value)
}

/** Clicks a button in a card or a dialog. */
export async function click(page: Page, card: string, text: string): Promise<void> {
  const found = await page
    .waitForFunction(
      (card, text) => {
        const cards = [...document.querySelectorAll('.card, dialog')]
        const place = cards.find(element => element.querySelector('h2, h3')?.textContent === card)
        const buttons = [...(place?.querySelectorAll('button') ?? [])]
        return buttons.find(element => element.textContent === text && element.checkVisibility())
      },
      POLL,
      card,
      text,
    )
    .catch(error => failWith(page, `there is no ${text} in ${card}`, error))
  await pressIt(found as ElementHandle<HTMLButtonElement>)
}

/** Chooses a file on the card of that heading. */
export async function chooseFile(page: Page, card: string, path: string): Promise<void> {
  const chooser = page.waitForFileChooser()
  // From here on, the browser asks the test for a file.
  await page.evaluate(() => undefined)
  await click(page, card, 'Choose a file…')
  await (await chooser).accept([path])
}

/** Clicks the one button with this name for screen readers. */
export async function clickNamed(page: Page, name: string): Promise<void> {
  const found = await page.waitForSelector(`button[aria-label="${name}"]`)
  await pressIt(found as ElementHandle<HTMLButtonElement>)
}

/** As a person does, who scrolls until it is in sight: on a phone the navigation covers the lower edge. */
async function pressIt(button: ElementHandle<HTMLButtonElement>): Promise<void> {
  await hitIt(button, async () => {
    await button.evaluate(element => element.scrollIntoView({ block: 'center' }))
    await button.click()
  })
}

/** A button that has just moved takes no press, and may move between a look and the press: a person who missed presses again. */
async function hitIt(button: ElementHandle, press: () => Promise<void>): Promise<void> {
  const seen = await button.evaluateHandle(element => {
    const seen = { isHit: false }
    element.addEventListener('click', () => Object.assign(seen, { isHit: true }), { once: true })
    return seen
  })
  await eventually(async () => {
    if (await button.evaluate(element => getComputedStyle(element).pointerEvents === 'none')) return false
    await press()
    // A press that loads another page takes this along.
    return seen.evaluate(({ isHit }) => isHit).catch(() => true)
  }).catch(async error => {
    const there = await button.evaluate(element => {
      const { x, y, width, height } = element.getBoundingClientRect()
      return document.elementFromPoint(x + width / 2, y + height / 2)?.outerHTML.slice(0, 500)
    })
    return failWith(button.frame.page(), `a press does not reach the button, but ${there},`, error)
  })
}

/** Taps a button in the list of sessions. */
export async function tap(page: Page, button: string): Promise<void> {
  const selector = `::-p-aria([name="${button}"][role="button"])`
  const found = await page.waitForSelector(selector)
  if (found) await hitIt(found, () => page.locator(selector).click())
}

/** Types into the control of a label, wherever it is. */
export async function enter(page: Page, label: string, text: string): Promise<void> {
  await (await labelled(page, label)).type(text)
}

/** Pastes a credential, as people do: to type one costs a hundred times as much, and a token seconds. Only for Chromium. */
export async function signIn(page: Page, credential: string): Promise<void> {
  await (await labelled(page, 'API key or token')).focus()
  await page.keyboard.sendCharacter(credential)
  await press(page, 'Enter')
}

async function labelled(page: Page, label: string): Promise<ElementHandle<HTMLInputElement>> {
  const found = await page.waitForFunction(
    label => [...document.querySelectorAll('label')].find(({ textContent }) => textContent === label)?.control,
    POLL,
    label,
  )
  return found as ElementHandle<HTMLInputElement>
}

export async function submit(page: Page): Promise<void> {
  await page.locator('form .primary').click()
}

/** The views that the page offers. */
export function navigation(page: Page): Promise<readonly string[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll('body > nav a')]
      .filter(link => link.checkVisibility())
      .map(link => link.textContent ?? ''),
  )
}

/** The page's storage. */
export function stored(
  page: Page,
): Promise<{ readonly session: readonly string[]; readonly local: readonly string[] }> {
  return page.evaluate(() => ({ session: Object.values(sessionStorage), local: Object.values(localStorage) }))
}

export async function press(page: Page, key: 'Enter' | 'End'): Promise<void> {
  await page.keyboard.press(key)
}

export async function valueIn(page: Page, card: string, label: string): Promise<string> {
  return (await control(page, card, label)).evaluate(element => element.value)
}

export async function waitForValue(page: Page, card: string, label: string, value: string): Promise<void> {
  const input = await control(page, card, label)
  await page.waitForFunction((input, value) => input.value === value, POLL, input, value)
}

/** Holds back the requests that keep a change on trial, which the page sends after two seconds. @returns lets them go. */
export async function holdConfirmations(page: Page): Promise<() => Promise<void>> {
  let isHeld = true
  const held: HTTPRequest[] = []
  // The page gives up a request that takes too long.
  const goOn = (request: HTTPRequest) => request.continue().catch(() => undefined)
  const hold = (request: HTTPRequest) => {
    if (isHeld && request.url().endsWith('/system/confirm')) held.push(request)
    else void goOn(request)
  }
  page.on('request', hold)
  await page.setRequestInterception(true)
  return async () => {
    isHeld = false
    await Promise.all(held.map(goOn))
    await page.setRequestInterception(false)
    page.off('request', hold)
  }
}

/**
 * Signs out while the answer to a request is awaited. @param path A part of its address.
 * @returns the titles of the dialogs that open when the answer is there, and the requests that are sent from then on.
 */
export async function signOutDuring(
  page: Page,
  path: string,
  act: () => Promise<void>,
  answer = (request: HTTPRequest) => request.continue(),
): Promise<readonly string[]> {
  const held: HTTPRequest[] = []
  const seen: string[] = []
  let isOut = false
  const hold = (request: HTTPRequest) => {
    if (isOut) seen.push(`${request.method()} ${request.url()}`)
    if (!isOut && request.url().includes(path)) held.push(request)
    else void request.continue()
  }
  page.on('request', hold)
  await page.setRequestInterception(true)
  await act()
  const request = await eventually(() => held[0])
  await page.locator('button::-p-text(Sign out)').click()
  await waitForText(page, 'Paste the API key')
  isOut = true
  const response = page.waitForResponse(response => response.url() === request.url())
  await answer(request)
  await response
  // Of what the page does not read, the browser does not say when it is there.
  await new Promise(resolve => setTimeout(resolve, 300))
  await page.setRequestInterception(false)
  page.off('request', hold)
  return [...(await page.$$eval('dialog', found => found.map(({ innerText }) => innerText))), ...seen]
}

/** Saves the download of a press in a folder, whole: the file is there before its content is. */
export async function download(page: Page, folder: string, press: () => Promise<void>): Promise<void> {
  const session = await page.createCDPSession()
  await session.send('Browser.setDownloadBehavior', {
    behavior: 'allow',
    downloadPath: folder,
    browserContextId: page.browserContext().id ?? '',
    eventsEnabled: true,
  })
  const isWhole = new Promise<void>(resolve =>
    session.on('Browser.downloadProgress', ({ state }) => {
      if (state === 'completed') resolve()
    }),
  )
  await press()
  await isWhole
}

/** Asks for a new API key, and confirms. */
export async function replaceKey(page: Page): Promise<void> {
  await goTo(page, 'Access')
  await click(page, 'API key', 'Replace the API key…')
  await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
}

/** Reloads the page, also if the browser asks whether to leave. */
export async function reload(page: Page): Promise<void> {
  page.once('dialog', dialog => dialog.accept())
  await page.reload()
}
