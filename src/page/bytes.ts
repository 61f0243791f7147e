/** Formats a number of bytes in a suitable unit. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const size = bytes / 1024 ** power
  return `${size < 10 && power > 0 ? size.toFixed(1) : Math.round(size)} ${units[power]}`
}
