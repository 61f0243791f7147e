import type { System } from './system.ts'

const FOLDERS = ['/usr/sbin', '/usr/bin', '/sbin', '/bin']

interface Tool {
  readonly program: string
  readonly package: string
  readonly without: string
  /** The program that needs the tool. Unless that is installed, the tool does not count as missing. */
  readonly serves?: string
}

/** Optional programs, their Debian packages, and what fails without each. */
const TOOLS = [
  { program: 'amixer', package: 'alsa-utils', without: 'the sound cannot be set' },
  { program: 'avahi-daemon', package: 'avahi-daemon', without: 'the device is not announced on the network' },
  { program: 'avahi-browse', package: 'avahi-utils', without: '`receiverd discover` finds no devices' },
  { program: 'ip', package: 'iproute2', without: 'address changes by other programs are noticed late' },
  { program: 'udevadm', package: 'udev', without: 'devices that are plugged in are noticed late' },
  // Yocto and Buildroot package it separately from the daemon.
  {
    program: 'wpa_cli',
    package: 'wpasupplicant',
    serves: 'wpa_supplicant',
    without: 'no network is found, and each one that the page joins is given up, as if it were out of reach',
  },
] as const satisfies readonly Tool[]

/** Returns a sentence about each missing program. */
export async function missingTools(system: System): Promise<readonly string[]> {
  const isThere = async (program: string) =>
    (await Promise.all(FOLDERS.map(folder => system.exists(`${folder}/${program}`)))).includes(true)
  const isMissed = async ({ program, serves }: Tool) =>
    !(await isThere(program)) && (serves === undefined || (await isThere(serves)))
  const missed = await Promise.all(TOOLS.map(isMissed))
  return TOOLS.filter((_, index) => missed[index]).map(
    tool => `${tool.program} is not installed (package ${tool.package}): ${tool.without}`,
  )
}
