/** Every view of the page, and how to come to it: for its accessibility, and for pictures. */
import type { Page } from 'puppeteer-core'
import type { TestService } from '../support/service.ts'
import type { PageDevice } from './device.ts'
import { click, fill, goTo, holdConfirmations, waitForText } from './steps.ts'

export interface ViewCase {
  readonly name: string
  /** Where it begins; by default signed in with the API key. */
  readonly link?: (device: PageDevice) => string
  /** Only the part in sight without scrolling counts. */
  readonly isAtTop?: true
  readonly come: (page: Page, device: PageDevice) => Promise<void>
}

export const VIEWS: readonly ViewCase[] = [
  { name: 'sign-in', link: ({ service }) => service.url, come: page => waitForText(page, 'Paste the API key') },
  {
    name: 'sign-in-refused',
    link: ({ service }) => `${service.url}/#key=${'A'.repeat(43)}`,
    come: page => waitForText(page, 'not the API key'),
  },
  {
    name: 'moderator',
    link: ({ service }) => `${service.url}/#key=${service.token(['moderator:rw'])}`,
    come: page => waitForText(page, 'Mirroring'),
  },
  { name: 'sessions', come: page => goTo(page, 'Sessions') },
  { name: 'settings', come: page => goTo(page, 'Settings') },
  {
    name: 'settings-refused',
    come: async page => {
      await goTo(page, 'Settings')
      await fill(page, 'General', 'Host name', 'no name!')
      await click(page, 'General', 'Save')
      await waitForText(page, 'Not saved')
    },
  },
  {
    name: 'settings-load',
    isAtTop: true,
    come: async page => {
      await goTo(page, 'Settings')
      const settings = { timezone: 'UTC', ntp: { servers: ['ntp.example.org', 'ntp.example.net'] }, later: true }
      const file = { format: 'receiverd-settings', version: 1, settings }
      await giveFile(page, 'settings.json', JSON.stringify(file))
      await waitForText(page, 'This device cannot take:')
    },
  },
  {
    name: 'settings-read-only',
    link: ({ service }) => `${service.url}/#key=${service.token(['admin:r'])}`,
    come: page => waitForText(page, 'Your token can read the settings'),
  },
  { name: 'status', come: page => goTo(page, 'Status') },
  { name: 'update', come: page => goTo(page, 'Update') },
  {
    name: 'update-install',
    isAtTop: true,
    come: async page => {
      await goTo(page, 'Update')
      await waitForText(page, '1.0.0')
      const isThere = await page.$$eval('button', found =>
        found.some(({ textContent, hidden }) => textContent === 'Install…' && !hidden),
      )
      if (!isThere) await giveFile(page, 'receiver-1.1.0.raucb', 'x'.repeat(100_000))
      await click(page, 'New version', 'Install…')
      await waitForText(page, 'Later, by hand')
    },
  },
  {
    name: 'log',
    come: async page => {
      await goTo(page, 'Log')
      await waitForText(page, 'lines')
    },
  },
  { name: 'access', come: page => goTo(page, 'Access') },
  {
    name: 'token',
    isAtTop: true,
    come: async page => {
      await goTo(page, 'Access')
      await click(page, 'New token', 'Make a token')
      await waitForText(page, 'Your new token')
    },
  },
  {
    name: 'replace-key',
    isAtTop: true,
    come: async page => {
      await goTo(page, 'Access')
      await click(page, 'API key', 'Replace the API key…')
      await waitForText(page, 'signed out at once')
    },
  },
  {
    name: 'disconnected',
    isAtTop: true,
    come: async page => {
      await goTo(page, 'Settings')
      await page.setRequestInterception(true)
      page.on('request', request => request.abort())
      await page.evaluate(() => ['pagehide', 'pageshow'].map(name => dispatchEvent(new Event(name))))
      await waitForText(page, 'Not connected to the device.')
    },
  },
  {
    name: 'trial',
    isAtTop: true,
    come: async (page, { service }) => {
      await goTo(page, 'Settings')
      await endTrial(service)
      await fill(page, 'General', 'Host name', `room-${Date.now()}`)
      await holdConfirmations(page)
      await click(page, 'General', 'Save')
      await waitForText(page, 'Checking the connection')
    },
  },
  {
    name: 'reverted',
    isAtTop: true,
    come: async (page, { service }) => {
      await goTo(page, 'Settings')
      await endTrial(service)
      await service.patch({ deviceName: 'For a moment' }, {}, '?confirmWithin=5')
      await waitForText(page, 'so the device has undone it')
    },
  },
]

/** Chooses a file, without the browser's window for that. */
async function giveFile(page: Page, name: string, text: string): Promise<void> {
  await page.$eval(
    'input[type=file]',
    (chooser, name, text) => {
      const files = new DataTransfer()
      files.items.add(new File([text], name))
      const { files: chosen } = files
      Object.assign(chooser, { files: chosen })
      chooser.dispatchEvent(new Event('change'))
    },
    name,
    text,
  )
}

/** Of a tab that was closed before its change was confirmed. */
async function endTrial(service: TestService): Promise<void> {
  await service.fetch('/system/confirm', { method: 'POST' })
}
