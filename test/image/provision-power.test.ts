/** Power cuts while receiver.txt is taken. */
import { appendFileSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ALL, Board } from './board.ts'

/** Every step is one at which the power fails; a short run tries a third of them, others each time. */
const STRIDE = Number(process.env.ROUNDS ?? 0) >= 200 ? 1 : 3

t.test('the power fails at any step: the next boot has all of it, and no secret is left', async t => {
  const whole = new Board(t).insert(ALL)
  whole.boot()
  let cuts = 1 + (Date.now() % STRIDE)
  for (; ; cuts += STRIDE) {
    const board = new Board(t).insert(ALL)
    const isCut = board.boot(cuts).isCut
    board.boot()
    const differing = Object.keys({ ...whole.files, ...board.files }).filter(
      name => whole.files[name] !== board.files[name] && !name.endsWith('.new'),
    )
    t.same(differing, [], `cut ${cuts}`)
    if (!isCut) break
  }
  t.ok(cuts > 40, `${cuts} cuts`)
})

t.test('the file is damaged by the power cut that interrupts its cleaning', async t => {
  const board = new Board(t).insert(ALL)
  cpSync(join(board.root, 'boot/firmware/receiver.txt'), join(board.root, 'var/lib/receiver.txt'))
  board.insert(Buffer.alloc(300))
  t.equal(board.boot().status, 0)
  t.equal(await board.setting('hostname'), 'lobby')
  t.match(board.read('/boot/firmware/receiver.txt'), /^#hostname=lobby\n/)
  t.equal(board.read('/var/lib/receiver.txt'), undefined)
  appendFileSync(join(board.root, 'boot/firmware/receiver.txt'), 'hostname=lobby-2\n')
  board.boot()
  t.equal(await board.setting('hostname'), 'lobby-2')
})

t.test('what was corrected on a PC after a power cut comes last', async t => {
  const board = new Board(t).insert(ALL)
  const corrected = ALL.replace('hostname=lobby', 'hostname=lobby-2').replace('correct horse', 'battery staple')
  cpSync(join(board.root, 'boot/firmware/receiver.txt'), join(board.root, 'var/lib/receiver.txt'))
  t.match(board.insert(corrected).boot(), { status: 0, stderr: /(receiver\.txt: taken: hostname name .*\n){2}/ })
  t.equal(await board.setting('hostname'), 'lobby-2')
  t.match(board.read('/etc/wpa_supplicant/wpa_supplicant-wlan0.conf'), 'psk="battery staple"')
  t.notMatch(JSON.stringify(board.read('/boot/firmware/receiver.txt')), /battery|horse/)
  t.equal(board.read('/var/lib/receiver.txt'), undefined)
})

t.test('a mistake in what was corrected is reported, and nothing of it is lost', async t => {
  const board = new Board(t).insert(ALL)
  cpSync(join(board.root, 'boot/firmware/receiver.txt'), join(board.root, 'var/lib/receiver.txt'))
  const corrected = 'hostname=lobby-2\nwifi-pasword=battery staple\n'
  t.equal(board.insert(corrected).boot().status, 0)
  t.equal(await board.setting('hostname'), 'lobby', 'what was taken before')
  t.match(board.errors, '"wifi-pasword" is not a setting')
  t.equal(board.read('/boot/firmware/receiver.txt'), corrected)
})
