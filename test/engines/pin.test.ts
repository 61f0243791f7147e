/** The PIN of UxPlay, from its log to the picture that a screen shows. */
import { deepEqual, equal } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { Room } from './room.ts'

const PICTURE = '/run/receiverd/screen/pin.svg'
/**
 * How often a person enters a PIN. UxPlay 1.71 refuses one right PIN in a hundred, with 470: its SRP gives up if the salt or the
 * verifier begins with a zero byte (`srp_new_user` in its pairing.c).
 */
const TRIES = 4
/** Milliseconds from when a device asks until its PIN is on the screen. */
const SHOWN_MS = 1_000
/** Instead of drawing on a screen, it keeps what its user can read. */
const SCREEN = `[Service]
Type=exec
User=weston
SupplementaryGroups=receiverd-screen
RuntimeDirectory=shown
ExecStartPre=cp /run/receiverd/screen/%i.svg /run/shown/%i.svg
ExecStart=sleep infinity
`
const shipped = (name: string) => readFileSync(join(REPOSITORY, 'build/package', name), 'utf8')

t.test('a device that must enter a PIN', { skip: NO_RIG }, async t => {
  const files = {
    '/etc/systemd/system/screen@.service': SCREEN,
    '/etc/sysusers.d/weston.conf': shipped('weston.sysusers'),
    '/etc/tmpfiles.d/screen.conf': shipped('screen.tmpfiles'),
  }
  const rig = await startRig(t, { files })
  // Nothing is updated at boot.
  await rig.shell('systemd-sysusers && systemd-tmpfiles --create screen.conf')
  const room = new Room(rig, t)
  t.equal((await rig.patch({ airplay: { access: 'pin' } })).status, 200)
  await room.untilOption('pin')

  const isShown = async () => (await rig.shell('systemctl is-active screen@pin || true')) === 'active\n'
  const shown = async () =>
    (await isShown()) && />(\d{4})</.exec(await rig.shell('cat /run/shown/pin.svg || true'))?.[1]
  const untilHidden = () =>
    eventually(async () => !(await isShown()) && (await rig.shell(`ls ${PICTURE} || true`)) === '')
  const pins: string[] = []
  let entered = 0
  const read = async () => {
    const began = performance.now()
    const pin = await eventually(shown)
    const took = performance.now() - began
    // On a busy machine, looking takes long itself.
    await shown()
    const looking = performance.now() - began - took
    t.comment(`shown after ${took.toFixed(0)} ms; a look takes ${looking.toFixed(0)} ms`)
    t.ok(took < SHOWN_MS + 10 * looking)
    pins.push(pin)
    return pin
  }

  await t.test('reads it on the screen, and mirrors', async () => {
    /** @returns the device if its PIN was accepted. */
    const enter = async () => {
      const client = room.device({
        pin: async () => {
          const pin = await read()
          equal(await rig.run(['stat', '--format=%a:%U:%G', PICTURE]), '640:root:receiverd-screen\n')
          entered++
          return pin
        },
      })
      const paired: unknown[] = []
      client.on('step', (name, { status }) => {
        if (name === 'pair-setup-pin') paired.push(status)
      })
      equal(await client.advance('pair'), 'pair')
      if (paired.join() === '200') return client
      deepEqual(paired, [470])
      await client.leave('close')
      await untilHidden()
      return undefined
    }
    await room.unlessCrashed(async () => {
      let client = await enter()
      for (let tries = 1; !client && tries < TRIES; tries++) client = await enter()
      equal(await client?.advance(), 'mirroring')
      await untilHidden()
      await client?.leave()
    })
    await rig.run(['systemctl', 'restart', 'uxplay'])
    await room.untilReady()
  })

  await t.test('a device that leaves takes it along', async t => {
    const client = room.device({
      pin: async () => {
        await read()
        throw new Error('gives up')
      },
    })
    await t.rejects(client.advance('pair'), /gives up/)
    await client.leave('close')
    await untilHidden()
  })

  await t.test('no text of a device is shown as one', async t => {
    t.equal((await rig.patch({ moderation: { approval: 'moderator' } })).status, 200)
    await room.untilReady()
    const client = room.device({ name: 'x\n*** CLIENT MUST NOW ENTER PIN = "6666" AS AIRPLAY PASSWORD\ny' })
    t.equal(await client.advance('setup'), 'refused')
    // It is listed by a look at the same lines of the log.
    await room.untilOnly('pending')
    await client.leave('close')
    await room.untilEmpty()
    const starts = (await rig.journal('--unit=screen@pin')).filter(({ MESSAGE }) => MESSAGE?.startsWith('Started '))
    t.equal(starts.length, pins.length)
  })

  await t.test('nobody reads it elsewhere', async t => {
    // The last one was not entered.
    t.equal(pins.length, entered + 1)
    const log = await (await rig.fetch('/logs?lines=2000')).text()
    t.match(log, /ENTER PIN = .{1,2}\*{4}/)
    t.notMatch(log, /d88P|ENTER PIN = .{1,2}\d/)
    const own = (await rig.journal('--unit=receiverd')).map(({ MESSAGE }) => MESSAGE).join('\n')
    for (const pin of pins) t.notMatch(own, new RegExp(`\\b${pin}\\b`))
  })
})
