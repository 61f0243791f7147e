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

/** How the checks reach the service on its own device. */
export interface Doors {
  readonly api: Address
  /** The port of nginx, which serves TLS in front of the service. */
  readonly tlsPort: number
  /** Returns a token with read access. */
  readonly token: () => Promise<string>
}

/** The result of all checks at one moment. */
export interface Look {
  /** One clause for each part that does not work; empty if all is well. */
  readonly wanting: readonly string[]
  /** The run of each checked unit, by unit name. It changes when the unit is restarted. */
  readonly runs: ReadonlyMap<string, string>
}

interface Check {
  /** The units that must be active. */
  readonly units: readonly string[]
  /** The clause that reports a failure. */
  readonly clause: string
  /** Reports whether the part works. Called only while the units are active. */
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
    // Goes through nginx to the API. Sends no credential: nothing has verified yet which server answers on this port.
    works: async (_, { tlsPort }) =>
      (await statusAt({ address: { host: LOOPBACK, port: tlsPort }, isTls: true })) === UNAUTHORIZED,
  },
  [UXPLAY]: { units: [UXPLAY], clause: 'UxPlay does not listen', works: system => new UxPlay(system).isListening() },
  [WESTON]: {
    // The idle screen shows a picture as long as weston draws.
    units: [WESTON, IDLE_UNIT],
    clause: 'weston does not draw',
    works: system => new Screen(system).isAnswering(),
  },
}

/** Checks whether the parts that worked before the trial work now. @throws {HalError} if systemd does not answer. */
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
    // Without a monitor, drawing does not matter: it may have been unplugged or switched off since the installation. A kernel
    // without a connector is different: it has lost its driver.
    if (name === WESTON && (!screen || (await monitorState(system)) === 'disconnected')) continue
    checks.push(CHECKS[name] ?? { units: [name], clause: `${name} does not run`, works: async () => true })
  }
  return checks
}

/** Reports whether the network that worked before the trial works now. */
export async function isConnected(system: System, expect: Expectations): Promise<boolean> {
  return (await whyNoAddress(system, expect)) === undefined
}

/** Returns a clause if no interface has an address; undefined if one has, or if all cables in question are unplugged. */
async function whyNoAddress(system: System, expect: Expectations): Promise<string | undefined> {
  // The record may come from an earlier version, which counted tunnels.
  const interfaces = await withoutTunnels(system, expect.interfaces)
  if (interfaces.length === 0 || (await reachableInterfaces(system)).length > 0) return undefined
  const unplugged = await Promise.all(interfaces.map(name => isUnplugged(system, name)))
  return unplugged.every(Boolean) ? undefined : 'there is no address'
}

/**
 * Reports whether an interface is up without a carrier. Wi-Fi never counts as unplugged: a version that cannot join a network
 * would be unreachable for good.
 */
async function isUnplugged(system: System, name: string): Promise<boolean> {
  const folder = `${LINKS}/${name}`
  if ((await system.exists(`${folder}/phy80211`)) || (await system.exists(`${folder}/wireless`))) return false
  // The carrier of an interface that is down cannot be read.
  const carrier = await system.readText(`${folder}/carrier`).catch(() => undefined)
  return carrier?.trim() === '0'
}
