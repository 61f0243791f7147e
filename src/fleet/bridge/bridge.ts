import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from '../../../hal/errors.ts'
import { CommandError } from '../../cli/failure.ts'
import { Refused } from '../../cli/service-client.ts'
import { rfc3339 } from '../../clock.ts'
import type { Log } from '../../log.ts'
import { UsageError } from '../../usage-error.ts'
import { type AccessOptions, certificatesAt, readSecret } from '../access.ts'
import type { Fleet, FleetDevice } from '../fleet-file.ts'
import { Broker, type Received } from './broker.ts'
import { Credentials } from './credentials.ts'
import { discoveryOf, discoveryTopicOf, nodeOf, objectIdOf } from './discovery.ts'
import { Looks } from './looks.ts'
import { type Order, Orders, orderIn } from './orders.ts'
import { type BridgeSettings, COMMANDS, type CommandName } from './settings.ts'
import { type DeviceState, messagesOf, mirroringIn, type SessionShown, textOf, waitingIn } from './state.ts'
import { Throttle } from './throttle.ts'
import { Watch } from './watch.ts'

export interface BridgeOptions extends AccessOptions {
  readonly version: string
  readonly log: Log
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly signal: AbortSignal
}

/** The last levels of a device's topics. The topic by which its messages are found is removed last. */
const TOPICS = ['settings', 'sessions', 'status', 'update', 'result', 'availability'] as const
/** Milliseconds between the first connections to two devices. */
const STAGGER_MS = 10
/** The name of a device, and the id that is made from it. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$/
/** Limit on the log lines that are remembered, so that they are not repeated. */
const MAX_SAID = 2_000
const NO_COMMAND = `the message is no command; there are ${Object.keys(COMMANDS).join(', ')}`

/**
 * Shows devices on an MQTT broker until the signal is aborted.
 * @param devices The devices of the fleet to show.
 * @throws {UsageError} if the fleet file names no broker, or a secret cannot be read.
 */
export async function runBridge(fleet: Fleet, devices: readonly FleetDevice[], options: BridgeOptions): Promise<void> {
  const { bridge } = fleet
  if (!bridge) throw new UsageError('bridge: the fleet file names no broker: bridge: { broker: mqtts://HOST }')
  const { env } = options
  const ca = bridge.ca === undefined ? undefined : await certificatesAt(bridge.ca)
  const password = bridge.password && (await readSecret(bridge.password, 'bridge.password', env))
  const credentials = await Credentials.read(fleet, devices, options)
  // Each device adds a listener.
  setMaxListeners(0, options.signal)
  await new Bridge(bridge, fleet, devices, credentials, { ...options, ca, password }).run()
}

interface Shown {
  readonly device: FleetDevice
  readonly watch: Watch
  readonly orders: Orders
  readonly changes: Throttle<DeviceState>
  /** The state that people see. */
  published: DeviceState
}

class Bridge {
  readonly #settings: BridgeSettings
  readonly #credentials: Credentials
  readonly #options: BridgeOptions
  readonly #broker: Broker
  readonly #shown: ReadonlyMap<string, Shown>
  readonly #looks: Looks
  /** The names of all devices in the fleet file, also of those that are not shown. */
  readonly #names: ReadonlySet<string>
  readonly #objectIds: ReadonlySet<string>
  /** Messages that were logged once, and are not logged again. */
  readonly #said = new Set<string>()

  constructor(
    settings: BridgeSettings,
    fleet: Fleet,
    devices: readonly FleetDevice[],
    credentials: Credentials,
    options: BridgeOptions & { readonly ca: string | undefined; readonly password: string | undefined },
  ) {
    this.#settings = settings
    this.#credentials = credentials
    this.#options = options
    this.#names = new Set(fleet.devices.map(({ name }) => name))
    this.#objectIds = new Set([...this.#names].map(objectIdOf))
    const { prefix, host, port, isTls, user, discovery } = settings
    const { ca, password, log, random, signal } = options
    this.#broker = new Broker({
      ...{ host, port, isTls, user, ca, password, log, random, signal },
      clientId: `receiverd-fleet-${nodeOf(settings)}`,
      presence: `${prefix}/bridge`,
      subscriptions: [
        `${prefix}/+/command`,
        `${prefix}/+/availability`,
        ...(discovery === '' ? [] : [discoveryTopicOf(settings, '+')]),
      ],
      received: message => this.#receive(message),
      connected: () => {
        for (const { changes } of this.#shown.values()) changes.flush()
      },
      // Nobody updates these from now on, and they name people.
      leaving: () => {
        for (const name of this.#shown.keys()) this.#set(name, 'sessions', '')
      },
    })
    this.#shown = new Map(devices.map(device => [device.name, this.#show(device)]))
    this.#looks = new Looks([...this.#shown.values()].map(({ watch }) => watch))
  }

  async run(): Promise<void> {
    const { signal, log } = this.#options
    const { size } = this.#shown
    log('info', `showing ${size} device${size === 1 ? '' : 's'} below ${this.#settings.prefix}/`)
    this.#looks.start()
    const watches = [...this.#shown.values()].map(async ({ watch }, index) => {
      await sleep(index * STAGGER_MS, undefined, { signal }).catch(() => undefined)
      await watch.run()
    })
    await Promise.all([this.#broker.run(), ...watches])
    this.#looks.stop()
  }

  #show(device: FleetDevice): Shown {
    const { name } = device
    const { log, random, signal } = this.#options
    // A device may send changes as often as it likes, so they are throttled. Whether it is online changes only as often as this
    // program connects to it.
    const changes = new Throttle<DeviceState>(state => this.#publish(shown, state), signal)
    const watch: Watch = new Watch({
      name,
      client: () => this.#credentials.clientOf(name),
      unreached: error => this.#credentials.unreached(name, error),
      changed: state => changes.pass(state, state.isOnline !== shown.published.isOnline),
      arrived: () => this.#looks.ask(watch),
      ...{ log, random, signal },
    })
    this.#set(name, 'availability', 'offline')
    const orders = new Orders((order, isStale) => this.#carryOut(name, watch, order, isStale), signal)
    const shown: Shown = { device, watch, orders, changes, published: watch.state }
    return shown
  }

  #publish(shown: Shown, state: DeviceState): void {
    const { device } = shown
    const { name } = device
    shown.published = state
    for (const [topic, text] of Object.entries(messagesOf(state))) this.#set(name, topic, text)
    // The result may name a session.
    if (state.sessions === 'absent') this.#set(name, 'result', '')
    if (this.#settings.discovery !== '') {
      const text = discoveryOf(this.#settings, device, state, this.#options.version)
      if (text !== '') this.#broker.set(discoveryTopicOf(this.#settings, objectIdOf(name)), text)
    }
    // Last, so that anyone who sees that the device is online also sees its state.
    this.#set(name, 'availability', state.isOnline ? 'online' : 'offline')
  }

  #topic(name: string, topic: string): string {
    return `${this.#settings.prefix}/${name}/${topic}`
  }

  #set(name: string, topic: string, text: string): void {
    this.#broker.set(this.#topic(name, topic), text)
  }

  #receive({ topic, text, isRetained }: Received): void {
    const { prefix, discovery } = this.#settings
    if (topic.startsWith(`${prefix}/`)) {
      const [name = '', kind] = topic.slice(prefix.length + 1).split('/')
      if (kind === 'command') this.#command(name, text, isRetained)
      else if (text !== '' && topic === this.#topic(name, 'availability')) this.#leave(name)
    } else if (discovery !== '' && text !== '') {
      const objectId = topic.split('/').at(-2) ?? ''
      if (topic === discoveryTopicOf(this.#settings, objectId) && NAME.test(objectId) && !this.#objectIds.has(objectId))
        this.#broker.remove(topic)
    }
  }

  /** Removes the messages about a device that is not in the fleet file. One that is in it, but not shown, is offline. */
  #leave(name: string): void {
    if (!NAME.test(name) || this.#shown.has(name)) return
    if (this.#names.has(name)) {
      this.#set(name, 'sessions', '')
      return this.#set(name, 'availability', 'offline')
    }
    this.#sayOnce(`removed ${name}`, 'info', `${name} is not in the fleet file, and is removed`)
    // If too many are being removed, the device is found again at the next connection.
    TOPICS.every(topic => this.#broker.remove(this.#topic(name, topic)))
  }

  #command(name: string, text: string, isRetained: boolean): void {
    const shown = this.#shown.get(name)
    if (!shown || text === '') return
    // A retained command would be carried out again whenever this program connects.
    if (isRetained)
      return this.#sayOnce(`retained ${name}`, 'warning', `a command for ${name} is retained, and is left alone`)
    const order = orderIn(text)
    if (!order) return this.#refuse(name, 'unknown', {}, NO_COMMAND)
    const { command } = order
    if (!this.#settings.allow.includes(command))
      return this.#refuse(name, command, order, `${command} is not in bridge.allow of the fleet file`)
    // The session at the time of the command: somebody else may be next when its turn comes.
    const session = order.session ?? sessionOf(order.command, shown.published)?.id
    if (!shown.orders.take({ command, session }))
      this.#refuse(name, 'full', order, 'it is asked for more than it can do, and some of that is left out')
  }

  /** @param key Identifies a message that is logged once for each device. */
  #refuse(name: string, key: string, order: Partial<Order>, error: string): void {
    this.#sayOnce(`${key} ${name}`, 'warning', `${name}: ${error}`)
    this.#setResult(name, order, error)
  }

  async #carryOut(name: string, watch: Watch, order: Order, isStale: boolean): Promise<void> {
    const { log } = this.#options
    let error: string | undefined
    try {
      if (isStale) throw new CommandError('it was asked for too long ago')
      await this.#send(name, watch.state, order)
      log('info', `${name}: ${order.command}, asked for over MQTT, is done`)
    } catch (failure) {
      // A device may answer with a text of any length.
      error = textOf(reasonIn(failure))
      log('warning', `${name}: ${order.command}, asked for over MQTT, has failed: ${error}`)
    }
    this.#setResult(name, order, error)
  }

  #setResult(name: string, order: Partial<Order>, error: string | undefined): void {
    const at = rfc3339(this.#options.now())
    const result = { ...order, ok: error === undefined, ...(error !== undefined && { error }), at }
    this.#set(name, 'result', JSON.stringify(result))
  }

  async #send(name: string, state: DeviceState, { command, session }: Order): Promise<void> {
    const client = this.#credentials.clientFor(name, command)
    if (command === 'identify' || command === 'restart-receiver') {
      await client.send('POST', `/operations/${command}`)
      return
    }
    const isPending = command !== 'end'
    // Whoever may end sessions may not be allowed to deny them, and vice versa.
    const one = sessionsOf(state).find(({ id }) => id === session)
    if (!one || (one.state === 'pending') !== isPending)
      throw new CommandError(isPending ? 'nobody waits' : 'nobody mirrors')
    // Only `end` ends somebody else's session.
    if (command === 'admit') await client.send('POST', `/sessions/${one.id}/admit?replace=false`)
    else await client.send('DELETE', `/sessions/${one.id}`)
  }

  #sayOnce(key: string, level: 'info' | 'warning', message: string): void {
    if (this.#said.has(key) || this.#said.size >= MAX_SAID) return
    this.#said.add(key)
    this.#options.log(level, message)
  }
}

/** Why a command has failed. It stays on the broker, and so it does not have the name of somebody who mirrors. */
function reasonIn(failure: unknown): string {
  if (failure instanceof Refused && failure.type === 'in-the-way')
    return 'somebody else mirrors; end that session first'
  return failure instanceof CommandError ? failure.message : reasonOf(failure)
}

function sessionsOf({ sessions }: DeviceState): readonly SessionShown[] {
  return typeof sessions === 'string' ? [] : sessions
}

/** The session that a command is about if it names none; undefined if there is none, or the command is about none. */
function sessionOf(command: CommandName, state: DeviceState): SessionShown | undefined {
  if (command === 'admit' || command === 'deny') return waitingIn(sessionsOf(state))
  return command === 'end' ? mirroringIn(sessionsOf(state)) : undefined
}
