/** The screen of the booted device, as QEMU shows it: its own pictures, and those of a device that mirrors. */
import { ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { AirPlayClient } from '../engines/airplay/client.ts'
import { Crashes } from '../engines/crashes.ts'
import { eventually } from '../support/eventually.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import type { Machine } from './machine.ts'
import { qrCodeIn, SCREEN_MS, Screen } from './screen.ts'

/** For people to look at. */
const PICTURES = join(REPOSITORY, 'build/out/screen')

/** Milliseconds until the first picture of a device is on the screen. */
const SEEN_MS = 180_000
/** Milliseconds that UxPlay is given to show a picture to a screen that does not answer. */
const BUSY_MS = 15_000
/** Until systemd has logged that UxPlay has crashed. */
const CRASH_LOGGED_MS = 60_000
const BUSY_TIMES = process.env.PROOF ? 3 : 1

/** The colors of the test client's picture, from left to right, without white and black at its ends. */
const BARS = ['yellow', 'cyan', 'green', 'magenta', 'red', 'blue']
const COLOURS: Readonly<Record<string, string>> = {
  yellow: '110',
  cyan: '011',
  green: '010',
  magenta: '101',
  red: '100',
  blue: '001',
}

/** @param device as it comes out of its box: nobody has used its key. */
export async function mirrors(t: Test, device: Machine): Promise<void> {
  const screen = new Screen(device, PICTURES)
  const crashes = new Crashes(command => device.shell(command))

  /** The pixels of the screen. */
  async function pixels(): Promise<{ width: number; height: number; at: (x: number, y: number) => readonly number[] }> {
    const path = await screen.shot('pixels', 'ppm')
    const bytes = readFileSync(path)
    const [header = '', width, height] = /^P6\n(\d+) (\d+)\n255\n/.exec(bytes.toString('latin1', 0, 32)) ?? []
    const at = (x: number, y: number) => {
      const offset = header.length + 3 * (y * Number(width) + x)
      return [...bytes.subarray(offset, offset + 3)]
    }
    return { width: Number(width), height: Number(height), at }
  }

  /** Whether a device's picture is on the screen. */
  async function hasBars(name: string): Promise<boolean> {
    const { width, height, at } = await pixels()
    await screen.shot(name)
    const middle = Array.from({ length: width }, (_, x) => at(x, Math.floor(height * 0.7)))
    const seen = middle.map(pixel => pixel.map(part => (part > 128 ? 1 : 0)).join(''))
    const inOrder = seen.filter((colour, x) => colour !== seen[x - 1] && !['000', '111'].includes(colour))
    return inOrder.join() === BARS.map(bar => COLOURS[bar]).join()
  }

  /** A device that mirrors. It tries until UxPlay is there. */
  function connect(whenRefused: () => Promise<void> = async () => undefined): Promise<AirPlayClient> {
    return eventually(async () => {
      const client = new AirPlayClient({ host: device.address, timeoutMs: SCREEN_MS })
      const outcome = await client.advance().catch(() => undefined)
      if (outcome === 'mirroring') return client
      if (outcome === 'refused') await whenRefused()
      await client.leave('close')
      return false
    }, SCREEN_MS)
  }

  /**
   * A device whose picture is on the screen, after `whenSeen`, which throws if it fails. If UxPlay crashes instead, it must serve
   * the next device.
   */
  async function mirror(
    t: Test,
    name: string,
    whenRefused?: () => Promise<void>,
    whenSeen: () => Promise<unknown> = async () => undefined,
  ): Promise<AirPlayClient> {
    for (;;) {
      crashes.countAttempt()
      const client = await connect(whenRefused)
      let reason: string | undefined
      client.once('ended', why => {
        reason = why
      })
      const isSeen = await eventually(async () => reason !== undefined || (await hasBars(name)), SEEN_MS).catch(
        () => false,
      )
      let failure: unknown
      if (isSeen && reason === undefined)
        try {
          await whenSeen()
          return client
        } catch (error) {
          failure = error
        }
      const crash = await eventually(() => crashes.news(), CRASH_LOGGED_MS).catch(async (error: Error) => {
        const log = await device.shell('journalctl --boot --lines 80 --unit uxplay --unit weston --unit screen@idle')
        const seen = `${failure ?? 'no picture'}, ${reason ?? 'but connected'}: ${JSON.stringify(await sessions())}\n${log}`
        throw new Error(seen, { cause: error })
      })
      t.comment(crash)
      await client.leave('close')
    }
  }

  async function sessions(): Promise<readonly { id: string; state: string }[]> {
    return ((await (await device.fetch('/sessions')).json()) as { sessions: { id: string; state: string }[] }).sessions
  }

  await t.test('idle: the name, the address, and a QR code of it', async t => {
    const name = (await device.shell('hostname')).trim()
    await screen.shows('new', name)
    const link = `https://10.0.2.15/#key=${device.key}&setup`
    await screen.showsCode('new', link)
    t.pass('it signs in the person who sets it up, once there is a certificate')
    const { value } = await device.system()
    t.equal(value.deviceName, name)
    await screen.showsCode('idle', 'https://10.0.2.15/')
    t.pass('until the key was used')
    t.match(value.display, { 'Virtual-1': { present: true } })
    t.match(value.airplay, { enabled: true, name: '' })
    await device.untilStarted()
  })

  await t.test('a PATCH is on the screen', async () => {
    await device.patch({ deviceName: 'Boardroom 7' })
    await screen.shows('renamed', 'Boardroom 7')
  })

  await t.test('identify: the name alone, for ten seconds', async t => {
    const seen = await eventually(async () => {
      t.equal((await device.fetch('/operations/identify', { method: 'POST' })).status, 202)
      // It takes seconds to appear. Reading a picture may take longer than it is shown, so they are read afterwards.
      const shots: string[] = []
      for (let n = 0; n < 8; n++) {
        await sleep(1_500)
        shots.push(await screen.shot(`identify-${n}`))
      }
      return shots.find(path => screen.isOnly(path, 'Boardroom 7', '10.0.2.15'))
    }, 3 * SCREEN_MS)
    t.comment(seen)
    await eventually(async () => qrCodeIn(await screen.shot('identified')) !== '', SCREEN_MS)
  })

  await t.test('a device mirrors: colour bars, and the idle screen again', async t => {
    const client = await mirror(t, 'mirroring')
    await client.leave('teardown')
    await screen.shows('idle-again', 'Boardroom 7')
    t.pass('seen')
  })

  await t.test('a PIN, over everything, until it is typed', async t => {
    t.equal((await device.patch({ airplay: { access: 'pin' } })).status, 200)
    const read = () => eventually(() => screen.pin('pin'), SCREEN_MS)
    // UxPlay may still be starting.
    const client = await eventually(async () => {
      const asks = new AirPlayClient({ host: device.address, timeoutMs: SCREEN_MS, pin: read })
      let isPaired = false
      asks.on('step', (name, { status }) => {
        isPaired ||= name === 'pair-setup-pin' && status === 200
      })
      const outcome = await asks.advance('setup').catch(() => undefined)
      if (isPaired && outcome === 'setup') return asks
      await asks.leave('close')
      return false
    }, SCREEN_MS)
    t.notMatch(await (await device.fetch('/logs?unit=uxplay.service')).text(), /PIN = ."?\d/)
    await screen.shows('pin-typed', 'Boardroom 7')
    await client.leave('close')
    t.equal((await device.patch({ airplay: { access: 'open' } })).status, 200)
  })

  await t.test('moderated: pending, let in, seen, ended', async t => {
    const only = (state: string) =>
      eventually(async () => {
        const [session, ...others] = await sessions()
        return others.length === 0 && session?.state === state && session
      }, SCREEN_MS)
    t.teardown(() => device.patch({ moderation: { approval: 'none' } }))
    t.equal((await device.patch({ moderation: { approval: 'moderator', timeoutS: 600 } })).status, 200)
    await screen.shows('moderated', 'wait until you are let in')
    const letIn = async () => {
      const { id } = await only('pending')
      // In an emulator, UxPlay restarts so slowly that the answer may be that it took more than 5 s.
      t.ok([200, 504].includes((await device.fetch(`/sessions/${id}/admit`, { method: 'POST' })).status))
    }
    const asks = new AirPlayClient({ host: device.address, timeoutMs: SCREEN_MS })
    await eventually(async () => (await asks.advance().catch(() => undefined)) === 'refused', SCREEN_MS)
    await letIn()
    // If UxPlay crashes, its session is over, and the device asks again.
    const client = await mirror(t, 'moderated-mirroring', letIn, async () => {
      const { id } = await only('active')
      const { status } = await device.fetch(`/sessions/${id}`, { method: 'DELETE' })
      ok([204, 504].includes(status), `DELETE: ${status}`)
    })
    await client.ended()
    await screen.shows('moderated-ended', 'Boardroom 7')
  })

  await t.test('rotation and mode are seen on the picture', async t => {
    const set = async (output: object) => {
      const answer = await device.patch({ display: { 'Virtual-1': output } })
      t.equal(answer.status, 200, await answer.text())
    }
    await set({ rotation: 180 })
    await eventually(async () => {
      const upsideDown = await screen.shot('rotated')
      return qrCodeIn(upsideDown) !== '' && !(await screen.text('rotated')).includes('Boardroom')
    }, SCREEN_MS)
    await set({ rotation: 0, mode: '1920x1080@60' })
    await screen.shows('full-hd', 'Boardroom 7')
    t.match(await pixels(), { width: 1920, height: 1080 })
  })

  await t.test('sound reaches the card', async t => {
    await eventually(
      async () => (await device.patch({ audio: { volume: 80, muted: false } })).status === 200,
      SCREEN_MS,
    )
    await device.shell(
      'runuser -u uxplay -- gst-launch-1.0 --quiet audiotestsrc num-buffers=100 ! audioconvert ! audioresample ! alsasink',
    )
    const samples = readFileSync(device.sound).subarray(44)
    t.ok(
      samples.some(byte => byte !== 0),
      `${samples.length} bytes`,
    )
  })

  await t.test('a screen that was too busy to answer UxPlay shows the next device', async t => {
    const hasLostIt = async () =>
      (await device.shell('journalctl --boot --unit uxplay --output cat')).includes('UxPlay has lost the screen')
    // How far UxPlay is when the screen resumes is a matter of luck, and so is whether it loses the screen.
    for (let time = 0; time < BUSY_TIMES && !(await hasLostIt()); time++) {
      const client = await connect()
      await device.shell('systemctl kill --kill-whom=main --signal=STOP weston')
      await sleep(BUSY_MS)
      await device.shell('systemctl kill --kill-whom=main --signal=CONT weston')
      await sleep(BUSY_MS)
      await client.leave('close')
    }
    t.comment(`UxPlay has ${(await hasLostIt()) ? '' : 'not '}lost the screen`)
    await crashes.excuse()
    const client = await mirror(t, 'mirroring-after-busy')
    await client.leave('teardown')
    await screen.shows('after-busy', 'Boardroom 7')
  })

  await t.test(
    'the power is cut while a device mirrors: the idle screen after the next start, and it mirrors again',
    { skip: NEEDS_PROOF },
    async t => {
      await mirror(t, 'mirroring-before-the-cut')
      device.cutPower()
      await device.boot()
      await screen.shows('after-the-cut', 'Boardroom 7')
      t.same(await sessions(), [])
      const client = await mirror(t, 'mirroring-after-the-cut')
      await eventually(async () => (await sessions())[0]?.state === 'active', SCREEN_MS)
      await client.leave('teardown')
      await device.untilStarted()
    },
  )
}
