import type { System } from './system.ts'

const FOLDERS = ['/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Programs without which the service runs, their packages in Debian, and what is missing without each. */
const TOOLS = [
  { program: 'amixer', package: 'alsa-utils', without: 'the sound cannot be set' },
  { program: 'avahi-daemon', package: 'avahi-daemon', without: 'the device is not announced on the network' },
  { program: 'avahi-browse', package: 'avahi-utils', without: '`receiverd discover` finds no devices' },
  { program: 'ip', package: 'iproute2', without: 'changes of addresses that others make are noticed late' },
  { program: 'udevadm', package: 'udev', without: 'devices that are plugged in are noticed late' },
] as const

/** A sentence about each program that is not installed. */
export async function missingTools(system: System): Promise<readonly string[]> {
  const isThere = async (program: string) =>
    (await Promise.all(FOLDERS.map(folder => system.exists(`${folder}/${program}`)))).includes(true)
  const found = await Promise.all(TOOLS.map(({ program }) => isThere(program)))
  return TOOLS.filter((_, index) => !found[index]).map(
    tool => `${tool.program} is not installed (package ${tool.package}): ${tool.without}`,
  )
}
