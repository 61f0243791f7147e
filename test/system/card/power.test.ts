/** Power cuts while receiver.txt is taken. */
import { mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { orderReset } from '../../../src/system/factory-reset.ts'
import { TestIssuer } from '../../support/issuer.ts'
import { SEED } from '../../support/random.ts'
import { ALL, Board, type Cut, KEY, TEXT, WPA } from './board.ts'

/** Every step is one at which the power fails; a short run tries some of them, others with another SEED. */
const STRIDE = Number(process.env.ROUNDS ?? 0) >= 200 ? 1 : 7
/** Differences between devices: the salts of former keys, and leftovers of a power cut until the next write. */
const OWN = /api-key\.former$|\.receiverd-[0-9a-f-]+$/

/** Cuts a boot at each step in turn. The one after it must leave the device as one that was never cut. @returns the steps. */
async function cutEverywhere(t: Test, make: () => Promise<Board>, cutAt: (n: number) => Cut): Promise<number> {
  const whole = await make()
  const { key } = await whole.boot()
  for (let n = 1 + (SEED % STRIDE); ; n += STRIDE) {
    const board = await make()
    const { isCut } = await board.boot(cutAt(n))
    const next = await board.boot()
    const differing = Object.keys({ ...whole.files, ...board.files }).filter(
      name => whole.files[name] !== board.files[name] && !OWN.test(name),
    )
    const errors = next.log.filter(line => line.startsWith('error'))
    t.same([differing, errors, next.key === key], [[], [], true], `cut ${n}`)
    if (!isCut) return n
  }
}

const ISSUER = new TestIssuer('office').file()
const inserted = (t: Test) => async () => new Board(t).insert(ALL).insertIssuer('office.json', ISSUER)

t.test('at any step of the service: the next boot has all of it, and no secret is left', async t => {
  const steps = await cutEverywhere(t, inserted(t), service => ({ service }))
  t.ok(steps > 40, `${steps} steps`)
})

t.test('at any step of the script that changes the card', async t => {
  const steps = await cutEverywhere(t, inserted(t), script => ({ script }))
  t.ok(steps > 5, `${steps} steps`)
})

t.test('at any step of a factory reset that goes back to what the card gave', async t => {
  const used = async () => {
    const board = await inserted(t)()
    await board.boot()
    await board.change(store => store.patch({ hostname: 'used', ntp: { enabled: false } }, () => undefined))
    await board.change((_, state) => orderReset(state, false))
    return board
  }
  const steps = await cutEverywhere(t, used, service => ({ service }))
  t.ok(steps > 40, `${steps} steps`)
})

t.test('a file that is written on a PC after a power cut comes last', async t => {
  const corrected = ALL.replace('hostname=lobby', 'hostname=lobby-2').replace('correct horse', 'battery staple')
  for (const script of [1, 3, 5]) {
    const board = new Board(t).insert(ALL)
    t.ok((await board.boot({ script })).isCut)
    await board.insert(corrected).boot()
    t.equal(await board.setting('hostname'), 'lobby-2')
    t.match(board.read(WPA), 'psk="battery staple"')
    t.notMatch(board.read(TEXT), /battery|horse|0123456789/)
  }
})

t.test('a mistake in what is written then is reported, and nothing of it is lost', async t => {
  const board = new Board(t).insert(ALL)
  t.ok((await board.boot({ script: 3 })).isCut)
  const corrected = 'hostname=lobby-2\nwifi-pasword=battery staple\n'
  await board.insert(corrected).boot()
  t.equal(await board.setting('hostname'), 'lobby', 'taken before')
  t.match(board.errors, '"wifi-pasword" is not a setting')
  t.equal(board.read(TEXT), corrected)
})

t.test('a card that is not there at the next start: what it gave stays, and is not taken again', async t => {
  const board = new Board(t).insert(ALL)
  board.isCardWritable = false
  await board.boot()
  await board.change(store => store.patch({ hostname: 'changed' }, () => undefined))
  const [card, away] = [join(board.root, 'boot/firmware'), join(board.root, 'boot/away')]
  renameSync(card, away)
  mkdirSync(card)
  t.equal((await board.boot()).key, KEY)
  rmdirSync(card)
  renameSync(away, card)
  board.isCardWritable = true
  await board.boot()
  t.equal(await board.setting('hostname'), 'changed')
  t.notMatch(board.read(TEXT), /horse|0123456789/)
})

t.test('a file that a power cut left half overwritten is not taken for a new one', async t => {
  const board = new Board(t).insert(ALL)
  t.ok((await board.boot({ script: 3 })).isCut)
  const half = Buffer.from(ALL)
  half.fill(0, 0, half.length / 2)
  const { log } = await board.insert(half).boot()
  t.same([board.errors, log.filter(line => /^(warning|error)/.test(line))], ['', []])
  t.notMatch(board.read(TEXT), /horse|0123456789/)
})
