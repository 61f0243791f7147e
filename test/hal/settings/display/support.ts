import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { System } from '../../../../hal/os/system.ts'
import { display } from '../../../../hal/settings/display/display.ts'
import { deviceRoot } from '../../../support/device.ts'

export const FILE = 'etc/xdg/weston/weston.ini'
export const DRM = 'sys/class/drm'
const TV_MODES = ['1920x1080@60', '1920x1080@50', '1920x1080@30', '1920x1080@24', '1280x720@60', '1280x720@50']
TV_MODES.push('720x576@50', '720x480@60', '640x480@60')
export const TV = { present: true, monitor: 'Lobby TV', modes: TV_MODES, mode: '1920x1080@60', rotation: 90 } as const
export const NOTHING = { present: false, monitor: '', modes: [], mode: 'preferred', rotation: 0 } as const

interface Connector {
  readonly status?: string
  readonly edid?: Buffer
  readonly modes?: string
}

/** Puts a connector where the kernel shows it, or removes it if there is no `status`. */
export function plug(root: string, name: string, { status, edid, modes }: Connector): void {
  const folder = join(root, DRM, name)
  rmSync(folder, { recursive: true, force: true })
  if (status === undefined) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'status'), `${status}\n`)
  writeFileSync(join(folder, 'edid'), edid ?? '')
  writeFileSync(join(folder, 'modes'), modes ?? '')
}

export function device(t: Test, fixture = 'receiver') {
  const root = deviceRoot(t, fixture)
  const setting = display(new System(root))
  const write = async (patch: Record<string, object>) => {
    const before = await setting.read()
    const next = Object.fromEntries(Object.entries(before).map(([name, one]) => [name, { ...one, ...patch[name] }]))
    const refused = (await setting.check?.(next, before)) ?? []
    if (refused.length === 0) await setting.write?.(next)
    return refused
  }
  const config = (text?: string) => {
    if (text !== undefined) writeFileSync(join(root, FILE), text)
    return readFileSync(join(root, FILE), 'latin1')
  }
  return { root, setting, write, config }
}
