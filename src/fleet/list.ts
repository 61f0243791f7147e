import { table } from '../cli/table.ts'
import { isObject, type JsonObject, type JsonValue } from '../json.ts'
import { printable } from '../log.ts'
import type { Member } from './access.ts'
import { atOnce } from './at-once.ts'
import { orFailed } from './outcome.ts'
import { FAILURE, INTERRUPTED, SUCCESS, summaryOf } from './report.ts'
import type { RollOutOptions } from './waves.ts'

const STATES = ['ok', 'on trial', 'read-only', 'not stored', 'not ready', 'failed', 'not begun'] as const

interface Listed {
  readonly device: string
  readonly address: string
  readonly groups: readonly string[]
  readonly state: (typeof STATES)[number]
  readonly reason?: string
  readonly deviceName?: string
  readonly model?: string
  readonly serial?: string
  /** The versions of the service and of the image. */
  readonly version?: string
  readonly firmware?: string
  /** The digest of the configuration: the same for devices with the same settings. */
  readonly digest?: string
}

const COLUMNS = ['DEVICE', 'ADDRESS', 'VERSION', 'FIRMWARE', 'GROUPS', 'DIGEST', 'STATE'] as const
const SHOWN_DIGEST = 12
/** Longer than any name and any version. */
const MAX_TEXT = 128

/** Lists the devices, and how each is doing. @returns the exit status. */
export async function list(members: readonly Member[], { limit, stop, halted, ui }: RollOutOptions): Promise<number> {
  let asked = 0
  const results = await atOnce(
    members,
    limit,
    async member => {
      const listed = await orFailed(look(member), halted)
      ui.show(`Asking: ${++asked} of ${members.length}`)
      return listed
    },
    stop,
  )
  ui.show('')
  const all: readonly Listed[] = members.map(({ device: { name, groups }, address }, at) => ({
    device: name,
    address,
    groups,
    ...(results[at] ?? { state: 'not begun' }),
  }))
  if (ui.isJson) process.stdout.write(`${JSON.stringify({ devices: all, summary: summaryOf(STATES, all) }, null, 2)}\n`)
  ui.say(table([COLUMNS, ...all.map(row)]))
  if (stop.aborted) return INTERRUPTED
  return all.some(({ state }) => state === 'failed') ? FAILURE : SUCCESS
}

async function look(member: Member): Promise<Omit<Listed, 'device' | 'address' | 'groups'>> {
  const client = member.client()
  const { body: system } = await client.send('GET', '/system')
  const { body: status } = await client.send('GET', '/status')
  return {
    state: stateIn(status),
    deviceName: textOf(system.deviceName),
    model: textOf(memberOf(system.hardware, 'model')),
    serial: textOf(memberOf(system.hardware, 'serial')),
    version: textOf(status.version),
    firmware: textOf(memberOf(system.firmware, 'version')),
    digest: textOf(status.configurationDigest),
  }
}

/** Returns how a device is doing, given its `GET /status`. */
export function stateIn({ trial, storage, keyStored, airplayReady }: JsonObject): Listed['state'] {
  if (trial !== undefined) return 'on trial'
  if (memberOf(storage, 'readOnly') === true) return 'read-only'
  if (memberOf(storage, 'temporary') === true || keyStored === false) return 'not stored'
  return airplayReady === false ? 'not ready' : 'ok'
}

function row({ device, address, version = '', firmware = '', groups, digest = '', state, reason }: Listed) {
  const shown = reason === undefined ? state : `${state}: ${reason}`
  return [device, address, version, firmware, groups.join(','), digest.slice(0, SHOWN_DIGEST), shown].map(printable)
}

function memberOf(value: JsonValue | undefined, name: keyof JsonObject): JsonValue | undefined {
  return isObject(value) ? value[name] : undefined
}

/** A device's text, printable and of limited length, because each cell widens its column in all rows. */
function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? printable(value.slice(0, MAX_TEXT)) : ''
}
