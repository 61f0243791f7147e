import type { System } from './system.ts'

/** Current facts about the device, as the kernel reports them. A fact that it does not report is undefined. */
export interface Facts {
  /** Seconds since boot. */
  readonly uptimeS: number | undefined
  /** The temperature of the hottest sensor, in degrees Celsius. */
  readonly temperatureC: number | undefined
  /** The load averages over 1, 5 and 15 minutes. */
  readonly load: readonly number[] | undefined
  readonly memory: Space | undefined
}

/** Bytes of memory: in total, and available to programs. */
export interface Space {
  readonly totalBytes: number
  readonly availableBytes: number
}

const ZONES = '/sys/class/thermal'
/** Limit on the sensors that are read. Boards have one to a dozen. */
const MAX_ZONES = 32
/** A sensor that is off or not connected may report absolute zero, or the largest number that it can. */
const MIN_C = -60
const MAX_C = 200

export async function readFacts(system: System): Promise<Facts> {
  const [uptime, loadavg, meminfo] = await Promise.all(
    ['/proc/uptime', '/proc/loadavg', '/proc/meminfo'].map(path => textOf(system, path)),
  )
  return {
    uptimeS: numbersIn(uptime, 1)?.[0],
    temperatureC: await temperature(system),
    load: numbersIn(loadavg, 3),
    memory: memoryIn(meminfo ?? ''),
  }
}

/** The first `count` words of a file, which are numbers (proc_uptime(5), proc_loadavg(5)). */
function numbersIn(text: string | undefined, count: number): readonly number[] | undefined {
  const numbers = (text ?? '').split(' ', count).map(Number.parseFloat)
  return numbers.length === count && numbers.every(Number.isFinite) ? numbers : undefined
}

/** proc_meminfo(5): `MemTotal:        3884376 kB`. */
function memoryIn(text: string): Space | undefined {
  const bytes = (name: string) => 1024 * Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? Number.NaN)
  const space = { totalBytes: bytes('MemTotal'), availableBytes: bytes('MemAvailable') }
  return Number.isFinite(space.totalBytes + space.availableBytes) ? space : undefined
}

/** The temperature of the hottest thermal zone in degrees Celsius. Zones report millidegrees (the kernel's sysfs-api.rst). */
async function temperature(system: System): Promise<number | undefined> {
  const names = await system.list(ZONES).catch(() => [])
  const zones = names.filter(name => name.startsWith('thermal_zone')).slice(0, MAX_ZONES)
  const texts = await Promise.all(zones.map(zone => textOf(system, `${ZONES}/${zone}/temp`)))
  const degrees = texts.map(text => Number.parseInt(text ?? '', 10) / 1000)
  const real = degrees.filter(value => value > MIN_C && value < MAX_C)
  return real.length === 0 ? undefined : Math.round(10 * Math.max(...real)) / 10
}

async function textOf(system: System, path: string): Promise<string | undefined> {
  // A sensor that is switched off answers with an error.
  return system.readText(path).catch(() => undefined)
}
