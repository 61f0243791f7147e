import { readEdid } from '../../format/edid.ts'
import type { System } from '../../os/system.ts'
import type { Output } from './schema.ts'

export const CONNECTORS = '/sys/class/drm'
/** Connectors of card 0 are `card0-HDMI-A-1` and so on. A writeback connector writes to memory, not to a monitor. */
const CONNECTOR = /^card(\d+)-((?!Writeback-)[\w-]+)$/

export type Monitor = Pick<Output, 'present' | 'monitor' | 'modes'>

/** Returns the folder of each connector, by name. If two cards have connectors of the same name, the lower card counts. */
export async function connectorFolders(system: System): Promise<ReadonlyMap<string, string>> {
  const found = (await system.list(CONNECTORS)).flatMap(folder => {
    const [, card, name] = CONNECTOR.exec(folder) ?? []
    return name === undefined ? [] : [{ card: Number(card), name, folder: `${CONNECTORS}/${folder}` }]
  })
  const lastFirst = found.sort((a, b) => b.card - a.card)
  return new Map(lastFirst.map(({ name, folder }) => [name, folder] as const))
}

/** Returns the monitor that is connected now; none if the connector disappears while it is being read. */
export async function readMonitor(system: System, folder: string | undefined): Promise<Monitor> {
  const attribute = async (name: string) =>
    (await system.readBytes(`${folder}/${name}`).catch(() => undefined)) ?? Buffer.alloc(0)
  if (!folder || (await attribute('status')).toString().trim() !== 'connected')
    return { present: false, monitor: '', modes: [] }
  const { monitor, timings } = readEdid(await attribute('edid'))
  // One mode per line, without its rate, so a resolution is repeated for each rate. `1920x1080i` is interlaced.
  const resolutions = (await attribute('modes')).toString().match(/^\d+x\d+$/gm) ?? []
  return { present: true, monitor, modes: modesOf(resolutions, timings) }
}

/** Returns the resolutions that the kernel can drive, at the rates that the monitor lists for them; without a rate if none. */
export function modesOf(resolutions: readonly string[], timings: readonly string[]): string[] {
  const modes = [...new Set(resolutions)].flatMap(resolution => {
    const rated = timings.filter(timing => timing.startsWith(`${resolution}@`))
    return rated.length > 0 ? rated : [resolution]
  })
  const rank = (mode: string) => mode.split(/[x@]/).map(Number) as [number, number, number?]
  return modes.sort((one, other) => {
    const [width, height, hz = 0] = rank(one)
    const [otherWidth, otherHeight, otherHz = 0] = rank(other)
    return otherWidth * otherHeight - width * height || otherWidth - width || otherHz - hz
  })
}
