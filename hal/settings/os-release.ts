import type { System } from '../os/system.ts'

/** The locations of os-release(5), in order of precedence. */
export const OS_RELEASE = ['/etc/os-release', '/usr/lib/os-release'] as const

/** Returns the text of os-release(5) from the first location that has it; undefined if neither does. @throws {HalError} */
export async function readOsRelease(system: System): Promise<string | undefined> {
  for (const path of OS_RELEASE) {
    const text = await system.readText(path)
    if (text !== undefined) return text
  }
  return undefined
}
