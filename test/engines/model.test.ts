/** Random rounds on a real UxPlay: it does what the API says, whatever devices, moderators and crashes do. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { NO_RIG } from '../rig/available.ts'
import { eventually } from '../support/eventually.ts'
import { Random, SEED } from '../support/random.ts'
import type { AirPlayClient, Departure } from './airplay/client.ts'
import { LISTED_MS, type Room, startRoom } from './room.ts'

const ROUNDS = Number(process.env.ROUNDS ?? 30)
const RESTART_MS = 60_000
/** Until a device has been put out, if it is to be. */
const PUT_OUT_MS = 10_000
const FORGED =
  'x\nclient connections have been restricted to those with listed deviceID,\nuse "-allow AA:BB:CC:00:00:01" to allow this client to connect.\n'

/** Devices, by ID: the name that each sends, and the one that is shown. */
const NAMES: Readonly<Record<string, readonly [sent: string, shown: string]>> = {
  'AA:BB:CC:00:00:01': ["Ann's iPhone", "Ann's iPhone"],
  'AA:BB:CC:00:00:02': ['Bob (2) 🎬\u202e', 'Bob (2) 🎬\ufffd'],
  'AA:BB:CC:00:00:03': [FORGED, ''],
}
const IDS = Object.keys(NAMES)
/** A device that the administrator lets in. */
const OTHER = 'AA:AA:AA:AA:AA:AA'

t.setTimeout(60_000 + ROUNDS * 45_000)

/** The expected state. */
class Model {
  readonly #room: Room
  readonly #random: Random
  readonly #admitted = new Set<string>()
  #present: { readonly id: string; readonly state: 'pending' | 'active'; readonly client: AirPlayClient } | undefined

  constructor(room: Room, random: Random) {
    this.#room = room
    this.#random = random
  }

  /** Takes a step. @returns its name. */
  async step(): Promise<string> {
    const { rig } = this.#room
    const present = this.#present
    const actions: Readonly<Record<string, (() => Promise<unknown>) | undefined | false>> = {
      'a device asks': () => this.#ask(this.#random.pick(IDS)),
      'another one asks': () => this.#ask(this.#random.pick(IDS)),
      'a device that may come asks':
        this.#admitted.size > 0 && (() => this.#ask(this.#random.pick([...this.#admitted]))),
      'it leaves': present && (() => this.#leave(this.#random.pick(['teardown', 'close'] as const))),
      'it is admitted': present?.state === 'pending' && (() => this.#admit(present.id)),
      'it is ended': present && (() => this.#end(present.id)),
      'one that may come is ended':
        this.#admitted.size > 0 && (() => this.#end(this.#random.pick([...this.#admitted]))),
      'UxPlay is restarted': () => this.#interrupt(() => rig.run(['systemctl', 'restart', 'uxplay'])),
      'UxPlay is killed': () => this.#interrupt(() => rig.run(['systemctl', 'kill', '--signal=KILL', 'uxplay'])),
      'UxPlay is stopped and started': () => this.#interrupt(() => this.#stopAndStart()),
      'receiverd is restarted': () => this.#forget(() => rig.run(['systemctl', 'restart', 'receiverd'])),
      'receiverd is killed': () => this.#forget(() => rig.run(['systemctl', 'kill', '--signal=KILL', 'receiverd'])),
      'receiverd is killed while it admits':
        present?.state === 'pending' && (() => this.#abort(present.id, present.client)),
      'AirPlay is changed': () => this.#change(),
    }
    const possible = Object.entries(actions).filter(([, act]) => act)
    const [what, act] = this.#random.pick(possible)
    if (act) await act()
    return what
  }

  /** Waits until the API says so. */
  async agrees(): Promise<void> {
    const expected = [...this.#admitted].map(id => describe(id, 'admitted'))
    if (this.#present) expected.push(describe(this.#present.id, this.#present.state))
    let listed: readonly string[] = []
    const isSame = async () => {
      // While receiverd restarts, it does not answer.
      const sessions = await this.#room.sessions().catch(() => [])
      listed = sessions.map(({ deviceId, name, state }) => `${deviceId} ${JSON.stringify(name)} ${state}`)
      return [...listed].sort().join() === [...expected].sort().join()
    }
    const agree = await eventually(isSame, LISTED_MS).catch(() => false)
    if (agree) return
    const differs = `listed: ${listed.join()}; expected: ${expected.join()}`
    // A crash of UxPlay puts out the connected device.
    const crash = await this.#room.crash().catch(none => {
      throw new Error(differs, { cause: none })
    })
    this.#room.log.comment(`${differs}: ${crash}`)
    const isOut = await Promise.race([this.#present?.client.ended() ?? 'nobody was there', sleep(PUT_OUT_MS)])
    if (isOut === undefined) throw new Error(differs)
    await this.#isOut()
    await this.agrees()
  }

  async #ask(deviceId: string): Promise<void> {
    if (this.#present?.id === deviceId) return
    if (!this.#present) await this.#isSettled()
    const [name = ''] = NAMES[deviceId] ?? []
    const outcome = this.#present ? 'busy' : this.#admitted.has(deviceId) ? 'mirroring' : 'refused'
    const client = await this.#room.attempt(outcome, { deviceId, name })
    // A crash of UxPlay puts out the connected device.
    if (!client) {
      await this.#isOut()
      // It may have been in already, and must ask again then.
      const sessions = await this.#room.sessions()
      const mayCome = sessions.some(session => session.deviceId === deviceId && session.state === 'admitted')
      if (outcome === 'mirroring' && !mayCome) this.#admitted.delete(deviceId)
      return this.#ask(deviceId)
    }
    if (outcome === 'busy') return
    this.#admitted.delete(deviceId)
    this.#present = { id: deviceId, state: outcome === 'refused' ? 'pending' : 'active', client }
  }

  async #leave(how: Departure): Promise<void> {
    await this.#present?.client.leave(how)
    this.#present = undefined
  }

  async #admit(id: string): Promise<void> {
    const answer = await this.#room.admit(await this.#session(id))
    if (answer.status !== 200) throw new Error(`admit: ${answer.status} ${await answer.text()}`)
    this.#admitted.add(id)
    await this.#isOut()
  }

  async #end(id: string): Promise<void> {
    const answer = await this.#room.end(await this.#session(id))
    if (answer.status !== 204) throw new Error(`end: ${answer.status} ${await answer.text()}`)
    this.#admitted.delete(id)
    if (this.#present?.id === id) await this.#isOut()
  }

  async #session(id: string) {
    const session = (await this.#room.sessions()).find(({ deviceId }) => deviceId === id)
    if (!session) throw new Error(`${id} is not listed`)
    return session
  }

  /** UxPlay ends, and systemd starts it again: the connected device is out. */
  async #interrupt(how: () => Promise<unknown>): Promise<void> {
    // receiverd may be about to restart it, and that would come on top.
    if (!this.#present) await this.#isSettled()
    await this.#restarts('uxplay', how)
    await this.#isOut()
  }

  /** Waits until systemd has started a unit again: a process that was killed still listens for a moment. */
  async #restarts(unit: string, how: () => Promise<unknown>): Promise<void> {
    const invocation = () => this.#room.rig.run(['systemctl', 'show', '--property=InvocationID', '--value', unit])
    const before = await invocation()
    await how()
    await eventually(async () => (await invocation()) !== before, RESTART_MS)
  }

  /** It stays stopped until it is started. */
  async #stopAndStart(): Promise<void> {
    const { rig } = this.#room
    // A restart by receiverd at the same moment cancels it, as systemd does with jobs that contradict each other.
    await rig.run(['systemctl', 'stop', 'uxplay']).catch(() => rig.run(['systemctl', 'stop', 'uxplay']))
    await sleep(this.#random.below(500))
    const state = await rig.shell('systemctl is-active uxplay || true')
    if (state !== 'inactive\n') throw new Error(`it was stopped, and is ${state}`)
    await rig.run(['systemctl', 'start', 'uxplay'])
  }

  /** receiverd ends: admitted devices must ask again. */
  async #forget(how: () => Promise<unknown>): Promise<void> {
    await this.#restarts('receiverd', how)
    const isServing = () =>
      this.#room.sessions().then(
        () => true,
        () => false,
      )
    await eventually(isServing, RESTART_MS)
    this.#admitted.clear()
  }

  /** receiverd is killed at some moment of an admission. */
  async #abort(id: string, client: AirPlayClient): Promise<void> {
    const admitted = this.#room.admit(await this.#session(id)).catch(() => undefined)
    await sleep(this.#random.below(2_000))
    await this.#forget(() => this.#room.rig.run(['systemctl', 'kill', '--signal=KILL', 'receiverd']))
    await admitted
    // Depending on the moment, UxPlay was not restarted, or was, or will be to make it forget the device.
    const isOut = await Promise.race([client.ended(), sleep(PUT_OUT_MS)])
    if (isOut !== undefined) this.#present = undefined
  }

  async #change(): Promise<void> {
    const maxResolution = this.#random.pick(['1280x720', '1920x1080', '640x480'])
    if (!this.#present) await this.#isSettled()
    const isConnected = this.#present !== undefined
    const isNew = !(await this.#room.rig.readFile('/run/uxplay/options')).includes(`\ns ${maxResolution}\n`)
    const answer = await this.#room.rig.patch({ airplay: { maxResolution } })
    const { airplay } = (await answer.json()) as { airplay: { restartPending: boolean } }
    if (airplay.restartPending !== (isConnected && isNew))
      throw new Error(`restartPending is ${airplay.restartPending}`)
  }

  /** The connected device notices that it was put out. */
  async #isOut(): Promise<void> {
    await this.#present?.client.ended()
    await this.#present?.client.leave('close')
    this.#present = undefined
  }

  /** UxPlay listens, and has read who may come. */
  async #isSettled(): Promise<void> {
    const expected = [OTHER, ...this.#admitted].sort().join()
    await eventually(async () => {
      const allowed = (await this.#room.allowed()).match(/(?<=allow ).*/g) ?? []
      // The other way round, it might have been the UxPlay before the one that was started with these.
      return allowed.sort().join() === expected && this.#room.rig.isListening(7001)
    }, RESTART_MS)
  }
}

function describe(id: string, state: string): string {
  return `${id} ${JSON.stringify(NAMES[id]?.[1])} ${state}`
}

t.test(`${ROUNDS} rounds, seed ${SEED}`, { skip: NO_RIG }, async t => {
  const room = await startRoom(t, `allow ${OTHER}\nblock BB:BB:BB:BB:BB:BB\n`)
  const model = new Model(room, new Random(SEED))
  const done: string[] = []
  for (let round = 0; round < ROUNDS; round++)
    try {
      done.push(await model.step())
      await model.agrees()
    } catch (error) {
      t.comment(await room.rig.shell('journalctl -u uxplay -u receiverd -n 40 --no-pager -o short-monotonic'))
      throw new Error(`after ${done.slice(-8).join(', ')} (round ${round}): ${error}`, { cause: error })
    }
  t.match(await room.rig.readFile('/etc/uxplayrc'), /^allow AA:AA:AA:AA:AA:AA\nblock BB:BB:BB:BB:BB:BB\n/m)
  t.same(await room.rig.journal('--unit=receiverd', '--priority=err'), [])
})
