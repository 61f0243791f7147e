// Figures of a process and its descendants, from proc(5).
import { readdirSync, readFileSync } from 'node:fs'

/** CLK_TCK is 100 on every architecture as far as programs can see, proc(5). */
const TICK_NS = 10_000_000

/** A process and its descendants, parents first. A kernel without CONFIG_PROC_CHILDREN lists none. */
export function familyOf(pid: number): readonly number[] {
  const family = [pid]
  // The array grows while it is iterated.
  for (const member of family)
    family.push(...read(`/proc/${member}/task/${member}/children`).split(' ').filter(Boolean).map(Number))
  return family
}

/** Nanoseconds of processor time of all threads so far; in ticks of 10 ms if the kernel has nothing more precise. */
export function cpuNs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const ns = threads.map(thread => Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(' ', 1)[0]))
  const total = ns.reduce((sum, thread) => sum + thread, 0)
  if (total > 0) return total
  // After the name, which is in parentheses and may contain spaces, utime and stime are the 12th and 13th field.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_NS
}

/** Bytes, by a name of proc_pid_status(5) such as `VmRSS`. */
export function memoryBytes(pid: number, name: 'VmRSS' | 'RssAnon' | 'RssFile'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1])
}

/** Empty if there is no such file. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
