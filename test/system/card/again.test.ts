/** After a factory reset, what the card gave is applied again: on the interface that it was for, and until it works. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { orderReset } from '../../../src/system/factory-reset.ts'
import { eventually } from '../../support/eventually.ts'
import { TestIssuer } from '../../support/issuer.ts'
import { ALL, Board, KEY, WIFI } from './board.ts'

const MEMORY = 'var/lib/receiverd/card'

t.test('after a factory reset, what fails is reported, and tried again at the next start', async t => {
  const board = new Board(t)
  await board.insert(ALL).boot()
  await board.change((_, state) => orderReset(state, false))
  board.refuses = command => command.includes('wpa_')
  for (const isFirst of [true, false]) {
    const { log, key } = await board.boot()
    const why = 'not taken again after the factory reset: The system refused to write wifi: '
    t.match(log.join('\n'), `warning: receiver.txt: ${why}`)
    t.match(board.errors, `Not used, because of:\n\n${why}`)
    t.match(await board.setting('wifi'), { networks: [] })
    t.match(await board.setting('network'), { wlan0: { method: 'static', address: '192.0.2.10/24' } })
    t.equal(await board.setting('hostname'), isFirst ? 'lobby' : 'since')
    t.equal(key, KEY)
    await board.change(store => store.patch({ hostname: 'since' }, () => undefined))
  }
  board.refuses = () => false
  await board.boot()
  t.match(await board.setting('wifi'), WIFI)
  t.equal(await board.setting('hostname'), 'since')
  t.equal(board.errors, '')
  const before = board.files
  await board.boot()
  t.same(board.files, before, 'once')
})

t.test('what somebody has set since it failed stays', async t => {
  const board = new Board(t)
  await board.insert(ALL).boot()
  await board.change((_, state) => orderReset(state, false))
  board.refuses = command => command.includes('wpa_')
  await board.boot({}, async store => {
    board.refuses = () => false
    const networks = [{ ssid: 'Home', password: 'my own password', hidden: false }]
    await store.patch({ wifi: { country: 'DK', networks } }, () => undefined)
  })
  const { log } = await board.boot()
  t.match(await board.setting('wifi'), { networks: [{ ssid: 'Home' }] })
  t.match(log.join('\n'), 'wifi-ssid, wifi-password, wifi-country: not taken again, because it has been set since')
  t.equal(board.errors, '')
})

t.test('a key and an issuer that could not be stored are tried again, unless they have been set since', async t => {
  for (const isSetSince of [false, true]) {
    const board = new Board(t).insert(ALL).insertIssuer('desk.json', new TestIssuer('desk').file())
    await board.boot()
    await board.change((_, state) => orderReset(state, false))
    board.failsToChange = path => /\.(api-key\.former|desk\.json)\.receiverd-/.test(path)
    const own = 'a-key-that-somebody-chose-later.0123456789'
    const { key: first } = await board.boot({}, async (_, issuers, keys) => {
      board.failsToChange = () => false
      if (!isSetSince) return
      await keys.replace(own)
      const { publicKey } = new TestIssuer('desk')
      await issuers.put('desk', { publicKey, roles: ['admin:r'] }, () => undefined)
    })
    t.not(first, KEY)
    for (const name of ['api-key', 'issuers/desk.json'])
      t.match(board.errors, `not taken again after the factory reset: ${name}: `)
    const { log, key } = await board.boot()
    t.equal(key, isSetSince ? own : KEY)
    t.match(await board.issuers(), { desk: isSetSince ? 'api' : 'card' })
    for (const name of ['api-key', 'issuers/desk.json'])
      t.match(
        log.join('\n'),
        isSetSince ? `${name}: not taken again, because it has been set since` : `taken again: ${name}`,
      )
    t.equal(board.errors, '')
  }
})

t.test(
  'a key that could not be stored is tried again, although the generated one could not be stored either',
  async t => {
    const board = new Board(t)
    await board.insert(ALL).boot()
    await board.change((_, state) => orderReset(state, false))
    board.failsToChange = path => /\.api-key\.receiverd-/.test(path)
    const { key: first } = await board.boot()
    t.match(board.errors, 'not taken again after the factory reset: api-key: ')
    board.failsToChange = () => false
    const { log, key } = await board.boot()
    t.not(key, first)
    t.equal(key, KEY)
    t.match(log.join('\n'), 'taken again: api-key')
  },
)

t.test('after a factory reset, a value that is refused is reported, and not tried again', async t => {
  const board = new Board(t)
  await board.insert(ALL).boot()
  await board.change((_, state) => orderReset(state, false))
  const memory = board.read(MEMORY) ?? ''
  writeFileSync(join(board.root, MEMORY), memory.replace('"lobby"', '"lob_by"'))
  const delivered = await board.setting('hostname')
  await board.boot()
  t.match(board.errors, 'not taken again after the factory reset: hostname: invalid value')
  t.match(await board.setting('wifi'), WIFI)
  const { log } = await board.boot()
  t.notMatch(log.join('\n'), 'not taken again')
  t.equal(board.errors, '')
  t.equal(await board.setting('hostname'), delivered)
})

t.test('a radio that comes during a trial gets its Wi-Fi when that is over', async t => {
  for (const isKept of [false, true]) {
    const board = new Board(t)
    await board.insert(ALL).boot()
    await board.change((_, state) => orderReset(state, false))
    board.unplugRadio()
    const { log } = await board.boot({}, async store => {
      await store.patch({ hostname: 'on-trial' }, () => undefined, 600)
      board.plugInRadio()
      await eventually(() => store.value('network')?.wlan0?.present === true)
      await (isKept ? store.confirm(() => undefined) : store.cancel(() => undefined))
      return eventually(() => store.value('network')?.wlan0?.method === 'static')
    })
    t.notMatch(log.join('\n'), 'not taken again')
    t.match(await board.setting('wifi'), WIFI)
    t.match(await board.setting('network'), { wlan0: { method: 'static' } })
    t.equal(await board.setting('hostname'), isKept ? 'on-trial' : 'lobby')
  }
})

t.test('a trial that begins before the settings of a radio are taken only delays them', async t => {
  for (const isReset of [false, true]) {
    const board = new Board(t).insert(ALL)
    if (isReset) {
      await board.boot()
      await board.change((_, state) => orderReset(state, false))
    }
    board.unplugRadio()
    const { log } = await board.boot({}, async store => {
      const errors = board.errors
      const patch = store.patch.bind(store)
      let refused = 0
      store.patch = (...args) =>
        patch(...args).catch(error => {
          refused++
          throw error
        })
      let began: Promise<unknown> | undefined
      store.topic.log.onAppend(() => {
        if (store.value('network')?.wlan0?.present) began ??= patch({ deviceName: 'Trial' }, () => undefined, 600)
      })
      board.plugInRadio()
      await eventually(() => refused > 0)
      await began
      t.equal(board.errors, errors, 'no mistake of the owner')
      await store.confirm(() => undefined)
      await eventually(() => store.value('network')?.wlan0?.method === 'static' && board.errors === '')
    })
    t.notMatch(log.join('\n'), /awaits its confirmation|error:/)
    t.match(await board.setting('wifi'), WIFI)
  }
})

t.test('the address is for the interface that it was given for, also after a factory reset', async t => {
  const [wifi, address, dns] = ['wifi-ssid=Guests\n', 'address=192.0.2.10/24\n', 'dns=192.0.2.54\n']
  const set = { method: 'static', address: '192.0.2.10/24' }
  const unset = { method: 'dhcp', address: '' }
  const cases: [cards: string[], { eth0: object; wlan0: object }][] = [
    [[address, wifi], { eth0: set, wlan0: unset }],
    [[address, wifi, dns], { eth0: { ...set, dns: ['192.0.2.54'] }, wlan0: unset }],
    [[wifi, address, dns], { eth0: unset, wlan0: { ...set, dns: ['192.0.2.54'] } }],
    [['address=192.0.2.9/24\n', wifi, address], { eth0: unset, wlan0: set }],
  ]
  for (const [cards, expected] of cases) {
    const board = new Board(t)
    for (const card of cards) t.match((await board.insert(card).boot()).log.at(-1), /taken: [a-z-]+$/)
    await board.change((_, state) => orderReset(state, false))
    const { log } = await board.boot()
    t.match(await board.setting('network'), expected, cards.join())
    t.match(await board.setting('wifi'), { networks: [{ ssid: 'Guests' }] })
    t.notMatch(log.join('\n'), /warning|error/)
  }
})

t.test('a part of the address of the cable is for the cable, although a client has set Wi-Fi', async t => {
  const board = new Board(t).insert('address=192.0.2.10/24\n')
  await board.boot()
  const { wlan0: before } = (await board.setting('network')) as { wlan0: object }
  const wifi = { country: '', networks: [{ ssid: 'Guests', password: '', hidden: false }] }
  await board.change(store => store.patch({ wifi }, () => undefined))
  await board.insert('dns=192.0.2.54\n').boot()
  t.match(await board.setting('network'), { eth0: { method: 'static', dns: ['192.0.2.54'] }, wlan0: before })
})

t.test('a memory that does not say which interface the address is for', async t => {
  for (const [text, expected] of [
    [ALL, { eth0: { method: 'dhcp' }, wlan0: { method: 'static' } }],
    ['address=192.0.2.10/24\n', { eth0: { method: 'static' }, wlan0: { method: 'dhcp' } }],
  ] as const) {
    const board = new Board(t)
    await board.insert(text).boot()
    const { given, ...memory } = JSON.parse(board.read(MEMORY) ?? '')
    const { link, ...earlier } = given
    t.ok(link)
    writeFileSync(join(board.root, MEMORY), JSON.stringify({ given: earlier, ...memory }))
    await board.change((_, state) => orderReset(state, false))
    await board.boot()
    t.match(await board.setting('network'), expected)
  }
})
