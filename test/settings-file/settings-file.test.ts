import t, { type Test } from 'tap'
import { masked } from '../../hal/format/bundle-url.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { configurationSchema } from '../../src/api/system.ts'
import {
  type JsonObject,
  previewOf,
  type Schema,
  settingsFile,
  settingsIn,
} from '../../src/settings-file/settings-file.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'

const SCHEMA: Schema = {
  properties: {
    name: { 'x-identity': true },
    secret: { format: 'password' },
    wifi: {
      properties: {
        country: {},
        networks: { items: { properties: { ssid: {}, password: { format: 'password' } } } },
        connected: { readOnly: true },
      },
    },
    display: { additionalProperties: { properties: { mode: {}, present: { readOnly: true } } } },
    update: { properties: { channel: { 'x-secret-query': true }, policy: {} } },
    firmware: { readOnly: true },
    hardware: { readOnly: true },
  },
}
const fileWith = (system: JsonObject, withIdentity = false) =>
  (JSON.parse(settingsFile(SCHEMA, system, withIdentity)) as { settings: JsonObject }).settings

t.test('a file has what can be written, without secrets, and names only if they are asked for', async t => {
  const system = {
    name: 'Lobby',
    secret: 'set',
    wifi: { country: 'DK', networks: [{ ssid: 'Guests', password: '' }], connected: 'Guests' },
    display: { 'HDMI-A-1': { mode: 'preferred', present: true }, toString: { mode: '720x400', present: false } },
    firmware: { version: '1.0' },
    hardware: { model: 'Board' },
    later: 1,
  }
  const settings = {
    wifi: { country: 'DK' },
    display: { 'HDMI-A-1': { mode: 'preferred' }, toString: { mode: '720x400' } },
  }
  t.strictSame(fileWith(system), settings)
  t.strictSame(fileWith(system, true), { name: 'Lobby', ...settings })
  t.equal(
    settingsFile(SCHEMA, { ...system, wifi: {}, display: {} }, true),
    `{
  "format": "receiverd-settings",
  "version": 1,
  "device": {
    "model": "Board",
    "version": "1.0"
  },
  "settings": {
    "name": "Lobby"
  }
}
`,
  )
  t.match(JSON.parse(settingsFile(SCHEMA, {}, true)), { device: { model: '', version: '' }, settings: {} })
  // A list is replaced whole: that of another device may have a password.
  const open = { ssid: 'Guests', password: '' }
  for (const networks of [[], [open], [open, { ssid: 'Staff', password: 'set' }]])
    t.strictSame(fileWith({ wifi: { country: 'DK', networks } }), { wifi: { country: 'DK' } }, `${networks.length}`)
})

t.test('an address whose query is masked is left out, because another device could not load it', async t => {
  const update = (channel: string) => fileWith({ update: { channel, policy: 'install' } }).update
  t.strictSame(update(masked('https://updates.example/r.raucb?token=1')), { policy: 'install' })
  const open = { channel: 'https://updates.example/r.raucb', policy: 'install' }
  t.strictSame(update(open.channel), open)
})

t.test('a file that is not ours is told from one that is too new', async t => {
  const file = (more: object) => JSON.stringify({ format: 'receiverd-settings', version: 1, settings: {}, ...more })
  t.strictSame(settingsIn(file({ settings: { a: 1 }, later: true })), { a: 1 })
  t.strictSame(settingsIn(`\ufeff${file({})}`), {}, 'with a byte-order mark')
  t.equal(settingsIn(file({ version: 2, settings: 'of another form' })), 'newer')
  for (const text of [
    '',
    '{',
    'null',
    '[]',
    '{"hostname":"x"}',
    file({ format: 'other' }),
    file({ version: '1' }),
    file({ settings: [] }),
    file({ settings: null }),
    `{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`,
  ])
    t.equal(settingsIn(text), 'foreign', text.slice(0, 60))
})

/** Refuses what it does not know, one error at a time, and says what would change. */
function deviceWith(known: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const asked: JsonObject[] = []
  const validate = async (patch: JsonObject) => {
    asked.push(patch)
    const [first] = Object.keys(patch).filter(name => !known.includes(name))
    const [pointer] = Object.keys(more).filter(pointer => JSON.stringify(patch).includes(`"${pointer.split('/')[1]}"`))
    if (pointer !== undefined && asked.length === 1)
      throw Object.assign(new Error('refused'), { errors: [{ pointer, detail: more[pointer] }] })
    if (first !== undefined)
      throw Object.assign(new Error('refused'), {
        errors: [{ pointer: `/${first.replaceAll('~', '~0').replaceAll('/', '~1')}`, detail: 'unknown property' }],
      })
    return { changes: patch }
  }
  return { validate, asked }
}

t.test('refused settings are left out, each with its reason, until the device takes the rest', async t => {
  const settings = JSON.parse('{"a":1,"b/c~d":2,"e":{"f":[1,2],"g":3},"__proto__":{"x":1}}') as JsonObject
  const { validate, asked } = deviceWith(['a', 'e'], { '/e/f/1': 'duplicate' })
  const { patch, differences, leftOut } = await previewOf(settings, { a: 0, e: { f: [], g: 3 } }, validate)
  t.strictSame(patch, { a: 1, e: { g: 3 } })
  t.strictSame(leftOut, [
    { path: ['e', 'f'], reason: 'duplicate' },
    { path: ['b/c~d'], reason: 'unknown property' },
    { path: ['__proto__'], reason: 'unknown property' },
  ])
  t.strictSame(differences, [
    { path: ['a'], before: 0, after: 1 },
    { path: ['e'], before: { f: [], g: 3 }, after: { g: 3 } },
  ])
  t.equal(asked.length, 4)
})

t.test('a reason at what the file does not have is one at the nearest thing that it has', async t => {
  let isFirst = true
  const validate = async (patch: JsonObject) => {
    const errors = ['address', 'gateway'].map(name => ({ pointer: `/network/eth0/${name}`, detail: `no ${name}` }))
    if (isFirst) {
      isFirst = false
      throw Object.assign(new Error('refused'), { errors })
    }
    return { changes: patch }
  }
  const settings = { network: { eth0: { method: 'static' }, eth1: { method: 'dhcp' } } }
  const { patch, leftOut } = await previewOf(settings, {}, validate)
  t.strictSame(patch, { network: { eth1: { method: 'dhcp' } } })
  t.strictSame(leftOut, [{ path: ['network', 'eth0'], reason: 'no gateway' }], 'once')
})

t.test('only settings that would change are sent; one that seems the same is shown whole', async t => {
  const changes = { a: { b: 2, c: 1 }, secret: { password: 'set' } }
  const settings = { a: { b: 2 }, same: 1, secret: { password: 'a secret' } }
  const system = { a: { b: 1, c: 1 }, same: 1, secret: { password: 'set' } }
  const { patch, differences } = await previewOf(settings, system, async () => ({ changes }))
  t.strictSame(patch, { a: { b: 2 }, secret: { password: 'a secret' } })
  t.strictSame(differences, [
    { path: ['a', 'b'], before: 1, after: 2 },
    { path: ['secret'], before: { password: 'set' }, after: { password: 'set' } },
  ])
})

t.test('any other refusal ends it', async t => {
  const failing = (error: object) =>
    previewOf({ a: 1 }, {}, () => Promise.reject(Object.assign(new Error('no'), error)))
  await t.rejects(failing({}), { message: 'no' })
  await t.rejects(failing({ errors: [] }), { message: 'no' })
  await t.rejects(failing({ errors: [{ pointer: '', detail: 'x' }] }), { message: 'no' })
  await t.rejects(failing({ errors: [{ pointer: '/elsewhere', detail: 'x' }] }), { message: 'no' }, 'and does not loop')
})

/** A device, the text that it saves, and its preview of a file. */
async function deviceFrom(t: Test, fixture?: string) {
  const root = deviceRoot(t, fixture)
  const service = await startTestService(t, {
    root,
    ...(fixture === undefined && new FakeReceiver(root).options),
  })
  const schema = configurationSchema(registry(new System(root))) as unknown as Schema
  const value = async () => (await service.system()).value
  return {
    service,
    save: async (withIdentity: boolean) => settingsFile(schema, await value(), withIdentity),
    preview: async (text: string) => {
      const settings = settingsIn(text)
      if (typeof settings === 'string') throw new Error(settings)
      return previewOf(settings, await value(), patch => validateOn(service, patch))
    },
  }
}

async function validateOn(service: TestService, patch: JsonObject): Promise<JsonObject> {
  const answer = await service.patch(patch, {}, '?validateOnly=true')
  const body = (await answer.json()) as JsonObject
  if (!answer.ok) throw Object.assign(new Error(String(body.detail)), body)
  return body
}

t.test('every setting of a device goes into its file, and back onto it without a change', async t => {
  const { service, save, preview } = await deviceFrom(t)
  const { value } = await service.system()
  const { settings: all } = JSON.parse(await save(true)) as { settings: JsonObject }
  t.strictSame(
    Object.keys(all).sort(),
    Object.keys(value)
      .filter(name => !/^(firmware|hardware)$/.test(name))
      .sort(),
  )
  const { settings: shared } = JSON.parse(await save(false)) as { settings: JsonObject }
  const { hostname, deviceName, network, ...rest } = all
  t.ok(hostname && deviceName && network)
  const { name, ...airplay } = rest.airplay as JsonObject
  t.type(name, 'string')
  t.strictSame(shared, { ...rest, airplay }, 'names and addresses are the identity of a device')
  t.notMatch(JSON.stringify(all), /restartPending|present|"mac"|modes/)
  t.match(value.wifi, { networks: [{ ssid: 'Office', password: 'set' }] })
  t.strictSame(all.wifi, { country: 'DE' }, 'no list with a password')

  for (const text of [await save(false), await save(true)]) {
    const { patch, differences, leftOut } = await preview(text)
    t.strictSame({ patch, differences, leftOut }, { patch: {}, differences: [], leftOut: [] })
  }
})

t.test('on other hardware, what it does not have is named, and the rest is taken', async t => {
  const one = await deviceFrom(t)
  await one.service.patch({ timezone: 'UTC', locale: 'C.UTF-8', moderation: { timeoutS: 60 } })
  const other = await deviceFrom(t, 'x86-box')
  const { patch, leftOut } = await other.preview(await one.save(true))
  t.match(patch, { hostname: 'receiver', moderation: { timeoutS: 60 } })
  t.strictSame(Object.fromEntries(leftOut.map(({ path, reason }) => [path.join('.'), reason])), {
    timezone: 'this device has no time zone of that name; did you mean Etc/UTC?',
    'network.eth0': 'no such interface; this device has enp1s0, enp2s0',
    'network.wlan0': 'no such interface; this device has enp1s0, enp2s0',
    wifi: 'not available on this device: no Wi-Fi adapter',
    'display.HDMI-A-2': 'no such connector; this device has DP-1, HDMI-A-1',
    'display.HDMI-A-1.mode': 'no monitor is connected; preferred is always accepted',
    audio: 'not available on this device: the volume can be read only on the running system, not with --root',
  })
  t.equal((await other.service.patch(patch)).status, 200, 'the rest is taken whole')
  t.strictSame((await other.preview(await one.save(true))).patch, {}, 'nothing is left to take')
})
