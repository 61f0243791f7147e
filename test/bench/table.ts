/** Rows as lines of aligned columns: the first to the left, the others to the right. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
  const line = (row: readonly string[]) =>
    row.map((cell, n) => (n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0))).join('  ')
  return rows.map(row => `${line(row)}\n`).join('')
}

/** A figure with three digits, or more if it is large. */
export function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
