import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { addressAfter } from '../../src/page/trial/address-after.ts'
import { eventually } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'
import type { TestService } from '../support/service.ts'
import { startWifiDevice } from '../support/wifi-device.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  choose,
  click,
  clickNamed,
  fill,
  goTo,
  holdConfirmations,
  signIn,
  valueIn,
  waitForNoText,
  waitForText,
  waitForValue,
} from './steps.ts'

/** A network between the browser and a device, which a change can cut. */
class Network {
  port = 0
  /** Replaced in the browser's requests. */
  readonly #from: string
  readonly #to: string
  /** The name under which the device can no longer be reached; "" for any. */
  #lostName: string | undefined
  #losing: string | undefined
  #isSilent = false
  /** The methods whose answers are lost, and those to the browser's second try. */
  readonly lost = new Set<string>()
  /** The name under which the device takes its time to give the page. */
  #slow = ''
  /** How late the page there is, in milliseconds. */
  #slowMs = 0
  readonly #sockets = new Set<Socket>()

  constructor(from = '', to = '') {
    this.#from = from
    this.#to = to
  }

  async start(t: Test, devicePort: number): Promise<void> {
    const server = createServer(socket => this.#join(socket, connect(devicePort, '127.0.0.1')))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    this.port = (server.address() as { port: number }).port
    t.teardown(() => {
      this.#drop()
      server.close()
    })
  }

  /** As soon as a PATCH has been answered, the device is not there any more. */
  loseAfterPatch(name = ''): void {
    this.#losing = name
  }

  /** As soon as a PATCH has been made, and before its answer, nothing arrives any more, and no connection ends. */
  fallSilentAtPatch(name: string): void {
    this.#losing = name
    this.#isSilent = true
  }

  slowDown(name: string, ms = 3_000): void {
    this.#slow = name
    this.#slowMs = ms
  }

  heal(): void {
    this.#lostName = undefined
  }

  #join(browser: Socket, device: Socket): void {
    for (const socket of [browser, device]) {
      this.#sockets.add(socket)
      socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket))
    }
    let isPatch = false
    let isLost = false
    browser.on('data', chunk => {
      const text = chunk.toString('latin1')
      if (this.#lostName !== undefined && text.includes(`Host: ${this.#lostName}`))
        return this.#isSilent ? undefined : void browser.destroy()
      const [method = ''] = text.split(' ', 1)
      isLost ||= this.lost.has(method)
      isPatch ||= text.startsWith('PATCH') && text.includes('confirmWithin')
      const isSlow = this.#slow !== '' && text.startsWith('GET / ') && text.includes(`Host: ${this.#slow}`)
      const sent = this.#from ? text.replace(this.#from, this.#to) : text
      setTimeout(() => device.write(sent, 'latin1'), isSlow ? this.#slowMs : 0)
    })
    device.on('data', chunk => {
      if (isLost) return void browser.destroy()
      if (isPatch && this.#isSilent) this.#lostName = this.#losing
      else browser.write(chunk)
      if (!isPatch || this.#losing === undefined || this.#isSilent) return
      this.#lostName = this.#losing
      this.#losing = undefined
      setTimeout(() => this.#drop(), 100)
    })
    browser.on('end', () => device.end())
    device.on('end', () => browser.end())
  }

  #drop(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** An address that a device has until the network assigns it another one. */
const FIXED = '192.0.2.50'

/** Resolves after a time for which the page does not wait at first. */
const afterFirstLook = () => new Promise(resolve => setTimeout(resolve, 2_500))

t.test('confirm or revert', { skip: missingBrowser('shell') }, async t => {
  const rules = `MAP *.local 127.0.0.1, MAP ${FIXED} 127.0.0.1`
  const browser = await startBrowser(t, 'shell', [`--host-resolver-rules=${rules}`])
  /** Opens the settings of a device at this host, with a network in between. */
  const openThrough = async (t: Test, service: TestService, host: string, credential = service.key) => {
    const network = new Network()
    await network.start(t, service.port)
    const { page } = await openTab(browser, `http://${host}:${network.port}/#key=${credential}`)
    await goTo(page, 'Settings')
    return { network, page }
  }

  await t.test('a change that leaves the device reachable is confirmed by itself', async t => {
    const { service, link } = await startPageDevice(t)
    const { page, offences } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await choose(page, 'Network', 'Method', 'Fixed address')
    t.equal(await valueIn(page, 'Network', 'Address'), '192.0.2.40/24', 'given by DHCP')
    t.equal(await valueIn(page, 'Network', 'Gateway'), '192.0.2.1')
    const servers = () =>
      page.$$eval('[aria-label^="Name servers, "]', found => found.map(input => (input as HTMLInputElement).value))
    t.strictSame((await servers()).filter(Boolean), ['192.0.2.1'], 'or names would no longer be found')
    await choose(page, 'Network', 'Method', 'Automatic (DHCP)')
    t.strictSame(await servers(), [])
    await waitForNoText(page, 'Unsaved changes')
    await choose(page, 'Network', 'Method', 'Fixed address')
    await fill(page, 'Network', 'Address', '192.0.2.50')
    await click(page, 'Network', 'Save')
    await waitForText(page, 'Not saved. Each mistake is explained at its field.')
    await fill(page, 'Network', 'Address', '192.0.2.50/24')
    const confirm = await holdConfirmations(page)
    await click(page, 'Network', 'Save')
    await waitForText(page, 'Checking the connection')
    await waitForText(page, 'Undone in 5')
    t.equal((await service.patch({ deviceName: 'Not now' })).status, 409, 'on trial')
    await confirm()
    await waitForText(page, 'Saved. The device can still be reached.')
    await waitForNoText(page, 'Checking the connection')
    t.equal((await service.patch({ deviceName: 'Now' })).status, 200)
    t.match((await service.system()).value.network, {
      eth0: { method: 'static', address: '192.0.2.50/24', gateway: '192.0.2.1', dns: ['192.0.2.1'] },
    })
    t.strictSame(offences, [])
  })

  await t.test('a device that takes its time to answer is waited for longer each time', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'slow')
    await page.setRequestInterception(true)
    page.on('request', async request => {
      if (request.url().endsWith('/confirm')) await afterFirstLook()
      request.continue().catch(() => undefined)
    })
    await click(page, 'General', 'Save')
    await waitForText(page, 'Saved. The device can still be reached.')
    t.equal((await service.system()).value.hostname, 'slow')
  })

  await t.test('other changes are not on trial', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Just so')
    await click(page, 'General', 'Save')
    await waitForText(page, 'Saved.')
    t.equal((await service.patch({ deviceName: 'Now' })).status, 200)
  })

  await t.test('a change that cuts the device off is undone, and shown as reverted', async t => {
    const { service } = await startPageDevice(t)
    const network = new Network('confirmWithin=60', 'confirmWithin=5')
    await network.start(t, service.port)
    const { page } = await openTab(browser, `http://127.0.0.1:${network.port}/#key=${service.key}`)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'unreachable')
    network.loseAfterPatch()
    await click(page, 'General', 'Save')
    await waitForText(page, 'Checking the connection')
    await waitForText(page, 'Not connected to the device.')
    await waitForText(page, 'It undoes the change by itself.')
    network.heal()
    await waitForText(page, 'so the device has undone it: Host name.')
    await waitForNoText(page, 'Not connected')
    await waitForValue(page, 'General', 'Host name', 'receiver')
    t.equal((await service.system()).value.hostname, 'receiver')
  })

  await t.test('where the answer is lost, the trial of somebody else is not kept', async t => {
    const { service } = await startPageDevice(t)
    const { network, page } = await openThrough(t, service, '127.0.0.1')
    await fill(page, 'General', 'Host name', 'mine')
    const other = await service.patch({ hostname: 'of-another' }, {}, '?confirmWithin=600')
    await waitForText(page, 'Connected')
    network.lost.add('PATCH')
    await click(page, 'General', 'Save')
    await waitForText(page, 'Checking the connection')
    const look = () => page.waitForResponse(response => response.url().endsWith('/status'))
    await look()
    await look()
    const { trial } = (await (await service.fetch('/status')).json()) as { trial?: { etag: string } }
    t.equal(trial?.etag, other.headers.get('etag'))
  })

  await t.test(
    'where the device does not tell whether somebody else has a change on trial, nothing is sent',
    async t => {
      const { service } = await startPageDevice(t)
      const { network, page } = await openThrough(t, service, '127.0.0.1')
      await fill(page, 'General', 'Host name', 'mine')
      await waitForText(page, 'Connected')
      for (const method of ['GET', 'PATCH']) network.lost.add(method)
      await click(page, 'General', 'Save')
      await waitForText(page, 'Nothing was changed')
      network.lost.clear()
      const other = await service.patch({ deviceName: 'Theirs' }, {}, '?confirmWithin=600')
      await waitForText(page, 'Connected')
      await afterFirstLook()
      const { trial } = (await (await service.fetch('/status')).json()) as { trial?: { etag: string } }
      t.equal(trial?.etag, other.headers.get('etag'), 'it is not kept')
      t.equal(await valueIn(page, 'General', 'Host name'), 'mine', 'and the entry is there to be saved')
    },
  )

  await t.test('where the answer is lost, a change of other settings is not taken for this one', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'mine')
    const others: Response[] = []
    await page.setRequestInterception(true)
    page.on('request', async request => {
      if (request.method() !== 'PATCH' || request.url().endsWith('?validateOnly=true')) return request.continue()
      others.push(await service.patch({ deviceName: 'Theirs' }, {}, '?confirmWithin=600'))
      return request.abort()
    })
    await click(page, 'General', 'Save')
    await waitForText(page, 'The change is not on the device')
    const { trial } = (await (await service.fetch('/status')).json()) as { trial?: { etag: string } }
    t.equal(trial?.etag, others[0]?.headers.get('etag'))
  })

  await t.test(
    'where the answers to a change and to its confirmation are lost, it is kept, and said to be',
    async t => {
      const { service } = await startPageDevice(t)
      const { network, page } = await openThrough(t, service, '127.0.0.1')
      await fill(page, 'General', 'Host name', 'kept')
      for (const method of ['PATCH', 'POST']) network.lost.add(method)
      await click(page, 'General', 'Save')
      await waitForText(page, 'Checking the connection')
      await eventually(() => service.log.some(line => line.includes('changed hostname')))
      await eventually(async () => (await service.patch({ deviceName: 'Now' })).status === 200)
      network.lost.clear()
      await waitForText(page, 'Saved. The device can still be reached.')
    },
  )

  await t.test('a change that never arrives is said not to be on the device', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'lost')
    let isFirst = true
    await page.setRequestInterception(true)
    page.on('request', request => {
      if (request.method() !== 'PATCH' || !isFirst) return void request.continue()
      isFirst = false
      request.abort()
    })
    await click(page, 'General', 'Save')
    await waitForText(page, 'The change may have been made')
    await waitForText(page, 'The change is not on the device')
    await waitForNoText(page, 'Checking the connection')
    await click(page, 'General', 'Save')
    await waitForText(page, 'The change has been made.')
    await waitForText(page, 'Saved. The device can still be reached.')
    t.equal((await service.system()).value.hostname, 'lost')
  })

  await t.test('a device that does not tell what is on trial is waited for', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'late')
    let asked = 0
    await page.setRequestInterception(true)
    page.on('request', request => {
      if (request.method() === 'PATCH') return void request.abort()
      // The first look is for somebody else's change.
      if (request.url().endsWith('/status') && asked++ > 0 && asked <= 7) return void request.respond({ status: 500 })
      request.continue()
    })
    await click(page, 'General', 'Save')
    await eventually(() => asked >= 7)
    t.equal((await service.patch({ hostname: 'late' }, {}, '?confirmWithin=60')).status, 200)
    await waitForText(page, 'Saved. The device can still be reached.')
  })

  await t.test('a change that takes its time is waited for, although its answer is lost', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Host name', 'late')
    await page.setRequestInterception(true)
    page.on('request', async request => {
      if (request.method() !== 'PATCH') return request.continue()
      if (!request.url().endsWith('?validateOnly=true')) return request.abort()
      // The device answers once it has made the change that came before.
      await service.patch({ hostname: 'late' }, {}, '?confirmWithin=60')
      return request.continue()
    })
    await click(page, 'General', 'Save')
    await waitForText(page, 'Saved. The device can still be reached.')
    t.equal((await service.system()).value.hostname, 'late')
  })

  await t.test('a device that moves is followed to its new address, and the change is kept', async t => {
    const { service } = await startPageDevice(t)
    const { network, page } = await openThrough(t, service, 'receiver.local')
    await fill(page, 'General', 'Host name', 'elsewhere')
    network.loseAfterPatch('receiver.local')
    network.slowDown('elsewhere.local')
    await click(page, 'General', 'Save')
    await page.waitForFunction(() => location.hostname === 'elsewhere.local', { polling: 100 })
    await waitForText(page, 'The device can be reached here, and the change is kept.')
    t.equal(page.url(), `http://elsewhere.local:${network.port}/`)
    t.equal((await service.system()).value.hostname, 'elsewhere')
    t.equal((await service.patch({ deviceName: 'Now' })).status, 200, 'no longer on trial')
    const [token = ''] = Object.values(await page.evaluate(() => ({ ...sessionStorage })))
    t.not(token, service.key, 'the key itself does not go to an address that another device may have')
    await goTo(page, 'Settings')
    t.equal(await valueIn(page, 'General', 'Host name'), 'elsewhere')
  })

  await t.test('a device whose new address the network assigns is looked for under its name', async t => {
    const { service } = await startPageDevice(t)
    const fixed = { method: 'static', address: `${FIXED}/24` }
    t.equal((await service.patch({ network: { eth0: fixed } })).status, 200)
    const { network, page } = await openThrough(t, service, FIXED)
    await choose(page, 'Network', 'Method', 'Automatic (DHCP)')
    network.fallSilentAtPatch(FIXED)
    await click(page, 'Network', 'Save')
    await page.waitForFunction(() => location.hostname === 'receiver.local', { polling: 100 })
    await waitForText(page, 'The device can be reached here, and the change is kept.')
    t.match((await service.system()).value.network, { eth0: { method: 'dhcp', address: '' } })
  })

  await t.test('where a change of address is kept over the old one, the page names the new one', async t => {
    const { service } = await startPageDevice(t)
    const { network, page } = await openThrough(t, service, 'receiver.local')
    await fill(page, 'General', 'Host name', 'elsewhere')
    await click(page, 'General', 'Save')
    await waitForText(page, 'The device has another address')
    t.equal(page.url(), `http://receiver.local:${network.port}/#settings`, 'where it may stay')
    const [token = ''] = await page.$$eval('dialog[open] a', links => links.map(({ hash }) => hash))
    t.match(token, /^#key=[^&]+$/, 'nothing is left to be confirmed')
    t.notMatch(token, service.key)
    await page.locator('dialog[open] a').click()
    await page.waitForFunction(() => location.hostname === 'elsewhere.local', { polling: 100 })
    await goTo(page, 'Settings')
    t.equal(await valueIn(page, 'General', 'Host name'), 'elsewhere')
  })

  await t.test('a token does not go to the new address: the page there asks to sign in', async t => {
    const { service } = await startPageDevice(t)
    const token = service.token(['admin:rw'])
    const { network, page } = await openThrough(t, service, 'receiver.local', token)
    await fill(page, 'General', 'Host name', 'elsewhere')
    network.loseAfterPatch('receiver.local')
    const urls: string[] = []
    page.on('framenavigated', frame => urls.push(frame.url()))
    await click(page, 'General', 'Save')
    await waitForText(page, 'Sign in to keep the change.')
    t.equal(page.url(), `http://elsewhere.local:${network.port}/`)
    t.notMatch(urls.join(), token)
    await signIn(page, token)
    await waitForText(page, 'Saved. The device can still be reached.')
    t.equal((await service.system()).value.hostname, 'elsewhere')
    t.equal((await service.patch({ deviceName: 'Now' })).status, 200, 'no longer on trial')
  })

  await t.test('a device that is back at its old address before the new one answers is not left', async t => {
    const { service } = await startPageDevice(t)
    const { network, page } = await openThrough(t, service, 'receiver.local')
    await fill(page, 'General', 'Host name', 'elsewhere')
    network.loseAfterPatch('receiver.local')
    network.slowDown('elsewhere.local', 20_000)
    let isLeft = false
    page.on('requestfailed', request => {
      isLeft ||= request.isNavigationRequest()
    })
    await click(page, 'General', 'Save')
    await waitForText(page, 'It should be at')
    network.heal()
    await eventually(() => isLeft)
    await waitForText(page, 'Saved. The device can still be reached.')
    await waitForText(page, 'Connected')
    t.equal(page.url(), `http://receiver.local:${network.port}/#settings`)
  })

  const LOST: readonly (readonly [path: string, status: number])[] = [
    ['/status', 0],
    ['/status', 502],
    ['/system/confirm', 0],
    ['/system/confirm', 504],
  ]
  for (const [path, status] of LOST)
    await t.test(`at the new address, ${path} is asked for again after ${status || 'no answer'}`, async t => {
      const { service, link } = await startPageDevice(t)
      t.equal((await service.patch({ hostname: 'elsewhere' }, {}, '?confirmWithin=60')).status, 200)
      let asked = 0
      const { page } = await openTab(browser, `${link}&confirm`, async page => {
        await page.setRequestInterception(true)
        page.on('request', request => {
          if (!request.url().endsWith(path) || asked++ > 0) request.continue()
          else if (status === 0) request.abort()
          else request.respond({ status })
        })
      })
      await waitForText(page, 'Saved. The device can still be reached.')
      t.equal((await service.patch({ deviceName: 'Now' })).status, 200, 'no longer on trial')
    })

  await t.test('at the new address, a device that takes its time to answer is waited for longer each time', async t => {
    const { service, link } = await startPageDevice(t)
    t.equal((await service.patch({ hostname: 'elsewhere' }, {}, '?confirmWithin=60')).status, 200)
    const { page } = await openTab(browser, `${link}&confirm`, async page => {
      await page.setRequestInterception(true)
      page.on('request', async request => {
        if (request.url().endsWith('/status')) await afterFirstLook()
        request.continue().catch(() => undefined)
      })
    })
    await waitForText(page, 'Saved. The device can still be reached.')
  })

  await t.test(
    'at the new address, the page says that there is no change to keep, after it has waited for one',
    async t => {
      const { service, link } = await startPageDevice(t)
      const { page } = await openTab(browser, `${link}&confirm`)
      await waitForText(page, 'Unless it was kept before, it is undone.')
      let looks = 0
      const late = await openTab(browser, `${link}&confirm`, async page => {
        page.on('response', response => {
          if (response.url().endsWith('/status')) looks++
        })
      })
      await eventually(() => looks >= 2)
      t.equal((await service.patch({ hostname: 'elsewhere' }, {}, '?confirmWithin=60')).status, 200)
      await waitForText(late.page, 'Saved. The device can still be reached.')
    },
  )

  await t.test(
    'where a device has gone back to its old network, the page at its new address does not keep the one that it could not join',
    { skip: needs('wpa_cli', 'python3') },
    async t => {
      const { options, fake, file } = await startWifiDevice(t)
      const office = { ssid: 'Office', password: 'correct horse' }
      await fake.air([office, { ssid: 'Lab', password: 'battery staple', flags: '[WPA2-PSK-CCMP][ESS]' }], 'in Office')
      const { service } = await startPageDevice(t, { ...options, addresses: () => ({ wlan0: ['127.0.0.1/8'] }) })
      const network = new Network('confirmWithin=60', 'confirmWithin=30')
      await network.start(t, service.port)
      const { page } = await openTab(browser, `http://127.0.0.1:${network.port}/#key=${service.key}`)
      await goTo(page, 'Settings')
      await click(page, 'Wi-Fi', 'Look for networks')
      await clickNamed(page, 'Join: Lab')
      await fill(page, 'Join \u2068Lab\u2069', 'Password', 'not this one')
      network.loseAfterPatch('127.0.0.1')
      await click(page, 'Join \u2068Lab\u2069', 'Join')
      await page.waitForFunction(() => location.hostname === 'receiver.local', { polling: 100 })
      await waitForText(page, 'The device could not join \u2068Lab\u2069, so the change was undone.')
      t.notMatch(readFileSync(file, 'utf8'), 'not this one')
      t.equal((await service.patch({ deviceName: 'Now' })).status, 200, 'no longer on trial')
    },
  )
})

t.test('where a device will be', async t => {
  const before = {
    hostname: 'receiver',
    network: {
      eth0: { address: '', addresses: ['192.0.2.40/24', '2001:db8::40/64'] },
      eth1: { address: '192.0.2.41/24' },
      eth2: { address: '2001:DB8:0::41/64' },
    },
  }
  const to = (address: string) => ({ network: { eth0: { address } } })
  const named = (hostname: string) => ({ ...before, hostname })
  const dhcp = { method: 'dhcp' }
  const cases: readonly (readonly [here: string, patch: object, there: string | undefined, before?: typeof before])[] =
    [
      ['http://192.0.2.40:8080/', to('192.0.2.50/24'), 'http://192.0.2.50:8080/'],
      ['https://192.0.2.40/room/?x#settings', to('192.0.2.50/24'), 'https://192.0.2.50/room/?x'],
      ['http://[2001:db8::40]/', to('2001:db8::50/64'), 'http://[2001:db8::50]/'],
      ['http://192.0.2.41/', to('192.0.2.50/24'), undefined],
      ['http://192.0.2.41/', { network: { eth1: { address: '192.0.2.51/24' } } }, 'http://192.0.2.51/'],
      ['http://192.0.2.41/', { network: { eth1: dhcp } }, 'http://receiver.local/'],
      ['http://192.0.2.41/', { network: { eth1: dhcp }, hostname: 'lobby' }, 'http://lobby.local/'],
      ['http://192.0.2.41/', { network: { eth0: dhcp } }, undefined],
      ['http://[2001:db8::40]/', { network: { eth0: dhcp } }, undefined],
      ['http://[2001:db8::41]/', { network: { eth2: dhcp } }, 'http://receiver.local/'],
      ['http://[2001:db8::41]/', { network: { eth2: { address: '2001:db8::41/48' } } }, undefined],
      ['http://receiver.local/', { network: { eth1: dhcp } }, undefined],
      ['http://192.0.2.40/', to(''), undefined],
      ['http://192.0.2.40/', { network: { eth0: { dns: [] } } }, undefined],
      ['http://receiver/', { hostname: 'lobby' }, 'http://lobby/'],
      ['http://receiver.local:8080/', { hostname: 'lobby' }, 'http://lobby.local:8080/'],
      ['http://receiver.local/', { hostname: 'lobby.example.org' }, 'http://lobby.local/'],
      ['http://receiver.local/', { hostname: 'receiver.example.org' }, undefined],
      ['http://receiver.local/', { hostname: 'lobby' }, 'http://lobby.local/', named('receiver.example.org')],
      [
        'http://receiver.example.org/',
        { hostname: 'lobby.example.org' },
        'http://lobby.example.org/',
        named('receiver.example.org'),
      ],
      ['http://proxy.example/', { hostname: 'lobby' }, undefined],
      ['http://192.0.2.40/', { hostname: 'lobby' }, undefined],
      ['http://192.0.2.40/', { wifi: { networks: [] } }, 'http://receiver.local/'],
      ['http://192.0.2.40/', { wifi: { country: 'DK' } }, undefined],
      ['http://receiver.local/', { wifi: { networks: [] } }, undefined],
      ['http://proxy.example/', { wifi: { networks: [] } }, undefined],
    ]
  for (const [here, patch, there, system = before] of cases)
    t.equal(
      addressAfter(patch as Parameters<typeof addressAfter>[0], system, here)?.address,
      there,
      `${here} ${system.hostname} ${JSON.stringify(patch)}`,
    )

  const isSure = (here: string, patch: object) =>
    addressAfter(patch as Parameters<typeof addressAfter>[0], before, here)?.isGuess === false
  t.ok(isSure('http://192.0.2.40/', to('192.0.2.50/24')))
  t.ok(isSure('http://192.0.2.41/', { network: { eth1: { address: '2001:db8::51/64' } } }))
  t.ok(isSure('http://[2001:db8::41]/', { network: { eth2: { address: '192.0.2.51/24' } } }))
  t.ok(isSure('http://192.0.2.41/', { network: { eth1: { address: 'not:an:address/64' } } }), 'the device refuses it')
  t.notOk(isSure('http://[2001:db8::40]/', to('192.0.2.50/24')), 'an announced address stays')
  t.notOk(isSure('http://192.0.2.41/', { network: { eth1: dhcp } }))
})
