import { absentUnlessRefused } from '../../errors.ts'
import { outputShownBy } from '../../format/weston-ini.ts'
import type { System } from '../../os/system.ts'
import { Unit } from '../../os/unit.ts'
import { refuse, type Setting, type Violation, whyReadOnly } from '../../setting.ts'
import { atMember, ownMember } from '../keyed.ts'
import { CONNECTORS, connectorFolders, readMonitor } from './connectors.ts'
import { type Output, type Outputs, schema } from './schema.ts'
import { editConfig, modeIn, rotationIn } from './weston.ts'

const FILE = '/etc/xdg/weston/weston.ini'
/** One of these exists if weston is installed. */
const WESTON = ['/etc/xdg/weston', '/usr/bin/weston']
const READ_ONLY = ['present', 'monitor', 'modes'] as const

/** Display outputs: connectors and monitors from the kernel's DRM, configuration from weston.ini(5). */
export function display(system: System): Setting<typeof schema> {
  const unit = new Unit(system, 'weston.service')
  /** Every connector seen since the start, with all modes of its monitors. A removed connector is still shown. */
  const seen = new Map<string, Set<string>>()
  /** Reads one character per byte: weston's file has no declared encoding, and foreign bytes must be kept. */
  const config = async () => (await system.readLossless(FILE)) ?? ''
  const outputs = async (config: string): Promise<Outputs> => {
    const folders = await connectorFolders(system)
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
    sources: [`${CONNECTORS}/*`],
    // inotify(7) does not report changes of attributes in /sys, such as `status`.
    devices: ['drm'],
    async unavailable() {
      if ((await connectorFolders(system)).size === 0) return 'no display connector'
      for (const path of WESTON) if (await system.exists(path)) return undefined
      return 'weston is not installed'
    },
    read: async () => outputs(await config()),
    fallback: () => outputs(''),
    async check(next, previous) {
      const text = (await config().catch(absentUnlessRefused)) ?? ''
      return Object.entries(next).flatMap(([name, output]) => {
        const before = ownMember(previous, name)
        if (!before) return []
        const shown = outputShownBy(text, name)
        return shown !== name && isOther(output, before)
          ? atMember(name, refuse('', `mirrors ${shown} (same-as in weston.ini): change that output instead`))
          : atMember(name, whyNotOutput(output, before, seen.get(name)))
      })
    },
    async choices() {
      const folders = Array.from(await connectorFolders(system))
      const entries = folders.map(async ([name, folder]) => {
        const { modes } = await readMonitor(system, folder)
        return [name, { mode: ['preferred', ...modes] }] as const
      })
      return Object.fromEntries(await Promise.all(entries))
    },
    async write(next) {
      return system.writeAtomic(FILE, editConfig((await system.readForEdit(FILE)) ?? '', next))
    },
    /** Weston reads its file when it starts. If it is stopped, or not run by this unit, it is left alone. */
    async activate(value, previous, isRewritten) {
      const isChanged = Object.entries(value).some(([name, output]) => isOther(output, ownMember(previous, name)))
      if (isRewritten && isChanged) await unit.restart()
    },
  }
}

function whyNotOutput(next: Output, previous: Output, seen: ReadonlySet<string> | undefined): readonly Violation[] {
  const { present, modes } = previous
  const isOffered = present ? modes.includes(next.mode) : seen?.has(next.mode)
  const isAccepted = next.mode === previous.mode || next.mode === 'preferred' || isOffered
  const why = present ? 'the monitor does not offer it' : 'no monitor is connected'
  return [
    ...whyReadOnly(READ_ONLY, next, previous),
    ...refuse('/mode', isAccepted ? undefined : `${why}; preferred is always accepted`),
  ]
}

function isOther(output: Output, previous: Output | undefined): boolean {
  return output.mode !== previous?.mode || output.rotation !== previous.rotation
}
