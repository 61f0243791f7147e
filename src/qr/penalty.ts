/** How hard a masked QR code is to read (ISO/IEC 18004 §7.8.3): the lower, the better. */
export function penalty(modules: readonly (readonly boolean[])[]): number {
  const rows = modules.map(row => row.map(Number).join(''))
  const columns = rows.map((_, x) => rows.map(row => row[x]).join(''))
  let sum = 0
  for (const line of [...rows, ...columns]) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) sum += run.length - 2
    sum += 40 * [...line.matchAll(/(?=10111010000|00001011101)/g)].length
  }
  rows.forEach((row, y) => {
    const next = rows[y + 1] ?? ''
    for (let x = 1; x < next.length; x++)
      if (/^(0000|1111)$/.test(row.slice(x - 1, x + 1) + next.slice(x - 1, x + 1))) sum += 3
  })
  const dark = rows.join('').replaceAll('0', '').length / rows.length ** 2
  return sum + 10 * Math.floor(Math.abs(dark - 0.5) * 20)
}
