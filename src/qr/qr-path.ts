import { qrCode } from './qr-code.ts'

/** Modules on each side (ISO/IEC 18004 §5.3.8). */
const QUIET_ZONE = 4

/** The dark modules as an SVG path, and the width and height of the code with its quiet zone. A module is 1 by 1. */
export function qrPath(text: string): { readonly size: number; readonly path: string } {
  const rows = qrCode(text)
  const dark = rows.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + QUIET_ZONE},${y + QUIET_ZONE}h1v1h-1z`] : [])),
  )
  return { size: rows.length + 2 * QUIET_ZONE, path: dark.join('') }
}
