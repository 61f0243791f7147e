import { getOutput, outputShownBy, setOutput } from '../../format/weston-ini.ts'
import { isMode, type Output, type Outputs } from './schema.ts'

/**
 * Returns the mode that weston takes from its configuration (weston-drm(7)). `off` and `current` are returned unchanged: shown
 * as `preferred`, they would hide that a screen is dark, and setting `preferred` would change nothing. Weston treats a value
 * that it cannot parse as `preferred`.
 */
export function modeIn(config: string, name: string): string {
  const value = getOutput(config, name, 'mode') ?? ''
  const [, resolution, hz] = /^(\d+x\d+)(?:\D+(\d+)(?: \d+:\d+)?)?$/.exec(value) ?? []
  const mode = resolution ? resolution + (Number(hz) ? `@${hz}` : '') : modelineMode(value)
  return isMode(mode) ? mode : 'preferred'
}

/** Converts a modeline: MHz, then display, sync start, sync end and total, of columns, then of lines. Keeps other values. */
function modelineMode(value: string): string {
  const [mhz = 0, width, , , columns = 0, height, , , lines = 0] = value.split(/\s+/).map(Number)
  return height ? `${width}x${height}@${Math.round((mhz * 1e6) / (columns * lines))}` : value
}

/** Returns the rotation, whether mirrored or not. Before weston 9, values had no `rotate-`. */
export function rotationIn(config: string, name: string): Output['rotation'] {
  const value = getOutput(config, name, 'transform') ?? ''
  const degrees = /^(?:flipped-)?(?:rotate-)?(90|180|270)$/.exec(value)?.[1]
  return Number(degrees ?? 0) as Output['rotation']
}

/** Writes only what differs, so that other spellings of the same value are kept. */
export function editConfig(before: string, next: Outputs): string {
  let text = before
  for (const [name, { mode, rotation }] of Object.entries(next)) {
    if (outputShownBy(before, name) !== name) continue
    if (rotation !== rotationIn(before, name)) {
      // A mirrored picture, as for rear projection, stays mirrored.
      const flip = getOutput(before, name, 'transform')?.startsWith('flipped') ? 'flipped-' : ''
      const transform = rotation === 0 ? flip.slice(0, -1) || 'normal' : `${flip}rotate-${rotation}`
      text = setOutput(text, name, 'transform', transform)
    }
    if (mode !== modeIn(before, name)) text = setOutput(text, name, 'mode', mode)
  }
  return text
}
