/** Formats text in columns, each as wide as its widest cell. The first row is the heading. */
export function table(rows: readonly (readonly string[])[]): string {
  const columns = rows[0]?.length ?? 0
  const widths = Array.from({ length: columns }, (_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return rows.map(row => line(row).trimEnd()).join('\n')
}
