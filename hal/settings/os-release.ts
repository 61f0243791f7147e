import type { System } from '../os/system.ts'

/** The places of os-release(5). */
export const OS_RELEASE = ['/etc/os-release', '/usr/lib/os-release'] as const

/** The text of os-release(5), from the first place that has the file; undefined if neither has. @throws {HalError} */
export async function readOsRelease(system: System): Promise<string | undefined> {
  for (const path of OS_RELEASE) {
    const text = await system.readText(path)
    if (text !== undefined) return text
  }
  return undefined
}
