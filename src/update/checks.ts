import { IDLE_UNIT, Screen } from '../../hal/os/screen.ts'
import type { System } from '../../hal/os/system.ts'
import { unitStates } from '../../hal/os/unit-state.ts'
import { UxPlay } from '../../hal/os/uxplay.ts'
import { LINKS } from '../../hal/settings/network/links.ts'
import type { Address } from '../config.ts'
import {
  isSwitchedOff,
  monitorState,
  NGINX,
  RECEIVERD,
  reachableInterfaces,
  UXPLAY,
  WESTON,
  withoutTunnels,
} from './expect.ts'
import { statusAt } from './probe.ts'
import type { Expectations } from './trial.ts'

/** How the service is asked on its own device. */
export interface Doors {
  readonly api: Address
  /** The port of the server in front. */
  readonly tlsPort: number
  /** A token that may read. */
  readonly token: () => Promise<string>
}

/** The state of everything that is checked, at one moment. */
export interface Look {
  /** The parts that do not work, each as a clause; none if all is well. */
  readonly wanting: readonly string[]
  /** Of each unit that this is about: another one after it was started again. */
  readonly runs: ReadonlyMap<string, string>
}

interface Check {
  /** The units that must be active for it. */
  readonly units: readonly string[]
  /** The clause that says that it does not work. */
  readonly clause: string
  /** Asked while the units are active. */
  readonly works: (system: System, doors: Doors) => Promise<boolean>
}

const LOOPBACK = '127.0.0.1'
const OK = 200
const UNAUTHORIZED = 401

const CHECKS: Readonly<Record<string, Check>> = {
  [RECEIVERD]: {
    units: [RECEIVERD],
    clause: 'receiverd does not answer',
    works: async (_, { api, token }) => (await statusAt({ address: api, isTls: false }, await token())) === OK,
  },
  [NGINX]: {
    units: [NGINX],
    clause: 'nginx does not answer by TLS',
    // The whole way through it. Without a credential: nobody knows yet who answers there.
    works: async (_, { tlsPort }) =>
      (await statusAt({ address: { host: LOOPBACK, port: tlsPort }, isTls: true })) === UNAUTHORIZED,
  },
  [UXPLAY]: { units: [UXPLAY], clause: 'UxPlay does not listen', works: system => new UxPlay(system).isListening() },
  [WESTON]: {
    // It shows a picture as long as weston draws.
    units: [WESTON, IDLE_UNIT],
    clause: 'weston does not draw',
    works: system => new Screen(system).isAnswering(),
  },
}

/** Looks whether what worked at the installation works now. @throws {HalError} if systemd does not answer. */
export async function look(system: System, expect: Expectations, doors: Doors): Promise<Look> {
  const checks = await checksFor(system, expect)
  const names = checks.flatMap(({ units }) => units)
  const states = await unitStates(system, names)
  const wanting = await Promise.all(
    checks.map(async ({ units, clause, works }) => {
      const idle = units.find(name => states.get(name)?.isActive !== true)
      if (idle !== undefined) return `${clause} (${idle} is ${states.get(idle)?.state})`
      return (await works(system, doors).catch(() => false)) ? undefined : clause
    }),
  )
  return {
    wanting: [...wanting, await whyNoAddress(system, expect)].filter(clause => clause !== undefined),
    runs: new Map(Array.from(states, ([name, { run }]) => [name, run] as const)),
  }
}

async function checksFor(system: System, { units, screen }: Expectations): Promise<readonly Check[]> {
  const checks: Check[] = []
  for (const name of units) {
    if (await isSwitchedOff(system, name)) continue
    // Nobody sees what is drawn for a monitor that was unplugged, or switched off, since. A kernel without a connector is
    // another matter: it has lost its driver.
    if (name === WESTON && (!screen || (await monitorState(system)) === 'disconnected')) continue
    checks.push(CHECKS[name] ?? { units: [name], clause: `${name} does not run`, works: async () => true })
  }
  return checks
}

/** Undefined if there is an address, or if all cables that led to one were unplugged. */
async function whyNoAddress(system: System, expect: Expectations): Promise<string | undefined> {
  // An earlier version has counted tunnels.
  const interfaces = await withoutTunnels(system, expect.interfaces)
  if (interfaces.length === 0 || (await reachableInterfaces(system)).length > 0) return undefined
  const unplugged = await Promise.all(interfaces.map(name => isUnplugged(system, name)))
  return unplugged.every(Boolean) ? undefined : 'there is no address'
}

/**
 * Whether an interface is up, and its cable leads nowhere. Wi-Fi without a network is no such case: a version that cannot
 * join one is out of reach for good.
 */
async function isUnplugged(system: System, name: string): Promise<boolean> {
  const folder = `${LINKS}/${name}`
  if ((await system.exists(`${folder}/phy80211`)) || (await system.exists(`${folder}/wireless`))) return false
  // Of an interface that nobody has brought up, it cannot be read.
  const carrier = await system.readText(`${folder}/carrier`).catch(() => undefined)
  return carrier?.trim() === '0'
}
