/** The view Update in every state of an update, and how to come there: for its texts, and for pictures. */
import type { Page } from 'puppeteer-core'
import type { Clock } from '../../src/clock.ts'
import { eventually } from '../support/eventually.ts'
import type { FakeRauc } from '../support/fakes/rauc.ts'
import { MIB, type UpdateDevice } from '../support/update-device.ts'
import { POLL } from './browser.ts'
import { choose, click, waitForNoText, waitForText } from './steps.ts'

export interface UpdateViewCase {
  readonly name: string
  /** Before the service starts. */
  readonly prepare?: (device: Pick<UpdateDevice, 'rauc' | 'write'>) => void
  /** With the view on the page. */
  readonly come: (page: Page, device: UpdateDevice) => Promise<void>
  /** How long it takes, or until when it waits, where something is going on. */
  readonly takes?: RegExp
  /** Text that is untrue there, or already elsewhere. */
  readonly not?: RegExp
}

const CARD = 'New version'
const AT = '2026-11-25T01:00:00Z'
const WINDOW = { days: ['sat', 'sun'], from: '02:00', to: '04:00' }
/** The clock of the device, on a Wednesday: out of that window whenever the tests run. */
export const CLOCK: Clock = { now: () => Date.parse('2026-11-25T12:00:00Z') + performance.now() }

export const UPDATE_VIEWS: readonly UpdateViewCase[] = [
  { name: 'new', come: page => waitForText(page, '1.0.0'), takes: /take some minutes each/ },
  {
    name: 'test-keys',
    prepare: device => {
      older(device)
      device.write('usr/lib/receiver/test-keys', '')
    },
    come: page => waitForText(page, 'signed with test keys'),
  },
  {
    name: 'channel',
    come: async (page, { service }) => {
      await service.patch({ update: { channel: 'https://updates.example.net/receiver.raucb' } })
      await waitForText(page, 'Check now')
    },
  },
  {
    name: 'sending',
    come: async (page, { says }) => {
      says({ version: '1.1.0' })
      await page.emulateNetworkConditions({ upload: 2 * MIB, download: 8 * MIB, latency: 20 })
      await give(page, 'receiver-raspberry-pi-1.1.0.raucb', 200 * MIB)
      await waitForText(page, 'left')
    },
    takes: /about \d+ minutes left/,
  },
  {
    name: 'broken',
    come: async (page, device) => {
      await begin(page, device)
      await waitForText(page, 'Not connected to the device')
    },
    takes: /some minutes.*goes on by itself/,
  },
  {
    name: 'reloaded',
    come: async (page, device) => {
      await begin(page, device)
      device.network.isDown = false
      // The browser asks, because the page is sending a file.
      page.once('dialog', dialog => dialog.accept())
      await page.reload()
      await waitForText(page, 'To go on')
    },
  },
  {
    name: 'sent-by-another',
    come: async (page, { service }) => {
      beginElsewhere(service.url, service.key)
      await waitForText(page, 'coming in')
    },
    takes: /some minutes/,
  },
  {
    name: 'checking',
    come: async (page, { rauc }) => {
      rauc.hold('InspectBundle')
      await give(page, 'receiver-raspberry-pi-1.1.0.raucb', MIB)
      await waitForText(page, 'checking the file')
    },
    takes: /less than a minute/,
  },
  {
    name: 'refused',
    come: async (page, { says }) => {
      says('signature verification failed: Verify error: self-signed certificate')
      await give(page, 'receiver-raspberry-pi-1.1.0.raucb', MIB)
      await waitForText(page, 'not signed')
    },
    not: /coming in/,
  },
  { name: 'ready', come: ready },
  {
    name: 'ask-install',
    come: async (page, device) => {
      await device.service.patch({ update: { window: WINDOW } })
      await ready(page, device)
      await click(page, CARD, 'Install…')
      await waitForText(page, 'Later, by hand')
    },
    takes: /about two.*five minutes/,
  },
  {
    name: 'ask-older',
    come: async (page, device) => {
      await ready(page, device, '0.9.0')
      await click(page, CARD, 'Install…')
      await click(page, 'Install 0.9.0?', 'Install')
      await waitForText(page, 'anyway?')
    },
  },
  {
    name: 'installing',
    come: async (page, device) => {
      await install(page, device)
      // Some seconds go by, by which a time could be told.
      for (let percent = 60; percent <= 72; percent += 4) {
        device.rauc.percent = percent
        await waitForText(page, `${percent} %`)
      }
    },
    takes: /takes some minutes/,
    not: /cannot be started| left$/m,
  },
  {
    name: 'not-installed',
    prepare: older,
    come: async (page, device) => {
      await install(page, device)
      device.rauc.fail('write error')
      await waitForText(page, 'RAUC could not install')
    },
    takes: /It is still here/,
    not: /Reason:/,
  },
  {
    name: 'interrupted',
    prepare: ({ write }) => outcome(write, { version: '1.1.0', outcome: 'failed', reason: 'interrupted', at: AT }),
    come: page => waitForText(page, '1.1.0 was not installed'),
  },
  { name: 'installed', come: installed, takes: /about two minutes.*five/ },
  {
    name: 'ask-restart',
    come: async (page, device) => {
      await installed(page, device)
      await click(page, CARD, 'Restart now…')
      await page.waitForSelector('dialog')
    },
    takes: /about two minutes/,
    not: /about a minute/,
  },
  {
    name: 'waits-for-window',
    come: async (page, device) => {
      await device.service.patch({ update: { window: WINDOW } })
      await installed(page, device, 'In the window')
      await waitForText(page, 'window:')
    },
    takes: /Saturday, Sunday, 02:00 to 04:00/,
  },
  {
    name: 'restarting',
    come: restarting,
    takes: /about two minutes.*five/,
  },
  {
    name: 'gone',
    come: async (page, device) => {
      await restarting(page, device)
      await device.service.close()
      await page.waitForSelector('.banner.calm:not([hidden])')
    },
    takes: /about two minutes.*five/,
  },
  {
    name: 'on-trial',
    come: async (page, device) => {
      await install(page, device, 'At once: mirroring ends')
      device.rauc.succeed('1.1.0')
      await eventually(async () => device.jobs.includes('reboot'))
      await device.restartInto('B', '1.1.0')
      await waitForText(page, 'on trial')
    },
    takes: /five minutes/,
  },
  {
    name: 'good',
    prepare: device => {
      older(device)
      outcome(device.write, { version: '1.0.0', outcome: 'installed', at: AT })
    },
    come: page => waitForText(page, 'and works'),
  },
  {
    name: 'fallback',
    prepare: ({ rauc, write }) => {
      Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'bad', 'bundle.version': '1.1.0' })
      const reason = 'nginx does not answer by TLS'
      outcome(write, { version: '1.1.0', outcome: 'rolled back', reason, at: AT })
    },
    come: page => waitForText(page, '1.1.0 did not work'),
  },
  {
    name: 'ask-back',
    prepare: older,
    come: async page => {
      await click(page, 'This device', 'Go back to 0.9.0…')
      await page.waitForSelector('dialog')
    },
    takes: /two minutes/,
  },
]

/** An older version that works is in the other system. */
function older({ rauc }: { readonly rauc: FakeRauc }): void {
  Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '0.9.0' })
}

function outcome(write: UpdateDevice['write'], last: object): void {
  write('data/update/last.json', JSON.stringify(last))
}

/** Chooses a file that this page makes up, without the browser's window for that. */
async function give(page: Page, name: string, bytes: number): Promise<void> {
  await page.waitForFunction(() => document.querySelector('.facts dd')?.textContent, POLL)
  await page.$eval(
    'input[type=file]',
    (chooser, name, bytes) => {
      const files = new DataTransfer()
      files.items.add(new File([new Uint8Array(bytes)], name))
      const { files: chosen } = files
      Object.assign(chooser, { files: chosen })
      chooser.dispatchEvent(new Event('change'))
    },
    name,
    bytes,
  )
}

/** A file whose connection breaks off in the middle, and does not come back. */
async function begin(page: Page, { network }: UpdateDevice): Promise<void> {
  Object.assign(network, { breaksAfter: 8 * MIB, staysDown: true })
  await give(page, 'receiver-raspberry-pi-1.1.0.raucb', 24 * MIB)
  await eventually(async () => network.isDown)
}

/** Somebody else sends the first half of a bundle, and is slow. */
function beginElsewhere(url: string, key: string): void {
  const body = new ReadableStream({ start: controller => controller.enqueue(new Uint8Array(MIB)) })
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/vnd.rauc.bundle',
    'Content-Length': `${2 * MIB}`,
  }
  const request: RequestInit & { readonly duplex: 'half' } = { method: 'PUT', body, headers, duplex: 'half' }
  fetch(`${url}/api/v1/update/bundle`, request).catch(() => undefined)
}

async function ready(page: Page, { says }: UpdateDevice, version = '1.1.0'): Promise<void> {
  says({ version })
  await give(page, `receiver-raspberry-pi-${version}.raucb`, MIB)
  await waitForText(page, `Version ${version} is here`)
}

async function install(page: Page, device: UpdateDevice, when = 'Later, by hand'): Promise<void> {
  await ready(page, device)
  await click(page, CARD, 'Install…')
  await choose(page, 'Install 1.1.0?', 'Restart', when)
  await click(page, 'Install 1.1.0?', 'Install')
  await waitForText(page, 'being installed')
}

async function installed(page: Page, device: UpdateDevice, when?: string): Promise<void> {
  await install(page, device, when)
  device.rauc.succeed('1.1.0')
  await waitForText(page, 'is installed')
}

async function restarting(page: Page, device: UpdateDevice): Promise<void> {
  await install(page, device, 'At once: mirroring ends')
  device.rauc.succeed('1.1.0')
  await waitForNoText(page, 'is installed')
  await waitForText(page, 'The restart takes')
}
