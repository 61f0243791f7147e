import * as Type from 'typebox/type'
import { isUnreadable } from '../errors.ts'
import { readEdid } from '../format/edid.ts'
import { getOutput, outputShownBy, setOutput } from '../format/weston-ini.ts'
import type { System } from '../os/system.ts'
import { isUnitInstalled, isUnitMasked } from '../os/unit.ts'
import type { Setting, Violation } from '../setting.ts'
import { Keyed, whyReadOnly } from './keyed.ts'

const FILE = '/etc/xdg/weston/weston.ini'
const UNIT = 'weston.service'
/** Either says that the device has weston. */
const WESTON = ['/etc/xdg/weston', '/usr/bin/weston']
const CLASS = '/sys/class/drm'
/** Those of card 0 are `card0-HDMI-A-1` and so on. A writeback connector leads to memory, not to a monitor. */
const CONNECTOR = /^card(\d+)-((?!Writeback-)[\w-]+)$/
const MODE = '^(preferred|current|off|[0-9]+x[0-9]+(@[0-9]+)?)$'
const READ_ONLY = ['present', 'monitor', 'modes'] as const

const output = Type.Object(
  {
    present: Type.Boolean({ description: 'A monitor is connected. Read-only.' }),
    monitor: Type.String({ description: 'Its name, by its EDID. Read-only.' }),
    modes: Type.Array(Type.String(), { description: 'What it offers, highest first. Read-only.' }),
    mode: Type.String({
      description: 'preferred, or one of modes. Reads current or off where weston.ini says so; neither can be chosen.',
      pattern: MODE,
    }),
    rotation: Type.Unsafe<0 | 90 | 180 | 270>({
      type: 'integer',
      enum: [0, 90, 180, 270],
      description: 'Degrees clockwise.',
    }),
  },
  { title: 'connector', additionalProperties: false },
)
const schema = Keyed(output, { description: 'Display outputs by their connectors, such as HDMI-A-1.' })

type Output = Type.Static<typeof output>
type Outputs = Type.Static<typeof schema>
type Monitor = Pick<Output, (typeof READ_ONLY)[number]>

/** Display outputs: what is connected by the kernel's DRM, what is shown by the [output] sections of weston.ini(5). */
export function display(system: System): Setting<typeof schema> {
  /** Each connector so far, with every mode of every monitor on it: one that was removed is still shown. */
  const seen = new Map<string, Set<string>>()
  /** One character a byte: weston asks for no encoding, and what is not ours must stay. */
  const config = async () => (await system.readBytes(FILE))?.toString('latin1') ?? ''
  const outputs = async (config: string): Promise<Outputs> => {
    const folders = await connectors(system)
    for (const name of folders.keys()) if (!seen.has(name)) seen.set(name, new Set())
    const entries = Array.from(seen, async ([name, modes]) => {
      const monitor = await readMonitor(system, folders.get(name))
      for (const mode of monitor.modes) modes.add(mode)
      const shown = outputShownBy(config, name)
      return [name, { ...monitor, mode: modeIn(config, shown), rotation: rotationIn(config, shown) }] as const
    })
    return Object.fromEntries(await Promise.all(entries))
  }
  return {
    name: 'display',
    schema,
    files: [FILE],
    // Its attributes, such as `status`, tell nobody when they change: the store's poll sees it.
    sources: [`${CLASS}/*`],
    async unavailable() {
      if ((await connectors(system)).size === 0) return 'no display connector'
      for (const path of WESTON) if (await system.exists(path)) return undefined
      return 'weston is not installed'
    },
    read: async () => outputs(await config()),
    fallback: () => outputs(''),
    async check(next, previous) {
      const text = await config().catch(() => '')
      const names = Object.keys({ ...previous, ...next })
      return names.flatMap(name => {
        const [output, before] = [next[name], previous[name]]
        if (!before) return [{ pointer: `/${name}`, detail: 'no such connector' }]
        if (!output) return [{ pointer: `/${name}`, detail: 'cannot be removed' }]
        const shown = outputShownBy(text, name)
        const refused =
          shown !== name && isOther(output, before)
            ? [{ pointer: '', detail: `shows what ${shown} shows (same-as in weston.ini)` }]
            : refusals(output, before, seen.get(name) ?? new Set())
        return refused.map(({ pointer, detail }) => ({ pointer: `/${name}${pointer}`, detail }))
      })
    },
    async write(next) {
      const text = await config().catch(error => {
        if (isUnreadable(error)) return ''
        throw error
      })
      return system.writeAtomic(FILE, Buffer.from(edit(text, next), 'latin1'))
    },
    /** weston reads its file when it starts. One that is not running, or is run by something else, is left alone. */
    async activate(value, previous) {
      if (!Object.entries(value).some(([name, output]) => isOther(output, previous[name]))) return
      if (!(await isUnitInstalled(system, UNIT)) || (await isUnitMasked(system, UNIT))) return
      await system.run(['systemctl', 'try-restart', UNIT])
    },
  }
}

/** The folders of the connectors by name. Of two cards that have the same one, the first has it. */
async function connectors(system: System): Promise<ReadonlyMap<string, string>> {
  const found = (await system.list(CLASS)).flatMap(folder => {
    const [, card, name] = CONNECTOR.exec(folder) ?? []
    return name === undefined ? [] : [{ card: Number(card), name, folder: `${CLASS}/${folder}` }]
  })
  const lastFirst = found.sort((a, b) => b.card - a.card)
  return new Map(lastFirst.map(({ name, folder }) => [name, folder] as const))
}

/** What is connected now. A connector can go while it is read: then nothing is. */
async function readMonitor(system: System, folder: string | undefined): Promise<Monitor> {
  const attribute = async (name: string) =>
    (await system.readBytes(`${folder}/${name}`).catch(() => undefined)) ?? Buffer.alloc(0)
  if (!folder || (await attribute('status')).toString().trim() !== 'connected')
    return { present: false, monitor: '', modes: [] }
  const { monitor, timings } = readEdid(await attribute('edid'))
  // One a line, without rates, again for each rate; `1920x1080i` is interlaced.
  const resolutions = (await attribute('modes')).toString().match(/^\d+x\d+$/gm) ?? []
  return { present: true, monitor, modes: modesOf(resolutions, timings) }
}

/** The resolutions that the kernel can drive at the rates of the monitor, or with no rate where it names none. */
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

function refusals(next: Output, previous: Output, seen: ReadonlySet<string>): Violation[] {
  const refused = whyReadOnly(READ_ONLY, next, previous)
  const { present, modes } = previous
  if (next.mode === previous.mode || next.mode === 'preferred') return refused
  if (present ? modes.includes(next.mode) : seen.has(next.mode)) return refused
  const who = present ? 'the monitor does not offer it' : 'no monitor is connected'
  return [...refused, { pointer: '/mode', detail: `${who}; preferred is always accepted` }]
}

/** Only what differs is written, so that values which read as another way of saying the same stay as they are. */
function edit(before: string, next: Outputs): string {
  let text = before
  for (const [name, { mode, rotation }] of Object.entries(next)) {
    if (outputShownBy(before, name) !== name) continue
    if (rotation !== rotationIn(before, name)) {
      // The mirror image of a projector behind its screen stays one when it is turned.
      const flip = getOutput(before, name, 'transform')?.startsWith('flipped') ? 'flipped-' : ''
      const transform = rotation === 0 ? flip.slice(0, -1) || 'normal' : `${flip}rotate-${rotation}`
      text = setOutput(text, name, 'transform', transform)
    }
    if (mode !== modeIn(before, name)) text = setOutput(text, name, 'mode', mode)
  }
  return text
}

/**
 * The mode that weston makes of what its file says (weston-drm(7)). `off` and `current` are shown as they are: as
 * `preferred` they would hide a screen that is dark, and writing `preferred` would change nothing. What weston cannot read
 * is `preferred` to it, too.
 */
export function modeIn(config: string, name: string): string {
  const value = getOutput(config, name, 'mode') ?? ''
  const [, resolution, hz] = /^(\d+x\d+)(?:\D+(\d+)(?: \d+:\d+)?)?$/.exec(value) ?? []
  if (resolution) return resolution + (Number(hz) ? `@${hz}` : '')
  // A modeline: MHz, then display, start and end of sync, and total; of columns, then of lines.
  const [mhz = 0, width, , , columns = 0, height, , , lines = 0] = value.split(/\s+/).map(Number)
  const mode = height ? `${width}x${height}@${Math.round((mhz * 1e6) / (columns * lines))}` : value
  return new RegExp(MODE).test(mode) ? mode : 'preferred'
}

/** A mirrored output has the rotation that it is mirrored with. Before weston 9 there was no `rotate-`. */
export function rotationIn(config: string, name: string): Output['rotation'] {
  const value = getOutput(config, name, 'transform') ?? ''
  const degrees = /^(?:flipped-)?(?:rotate-)?(90|180|270)$/.exec(value)?.[1]
  return Number(degrees ?? 0) as Output['rotation']
}

function isOther(output: Output, previous: Output | undefined): boolean {
  return output.mode !== previous?.mode || output.rotation !== previous.rotation
}
