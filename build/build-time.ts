import { execFileSync } from 'node:child_process'

/** Seconds since 1970: SOURCE_DATE_EPOCH (reproducible-builds.org), or else the time of the commit. */
export function buildTime(): number {
  if (process.env.SOURCE_DATE_EPOCH) return Number(process.env.SOURCE_DATE_EPOCH)
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const
    return Number(execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8', stdio: [...stdio] }))
  } catch {
    throw new Error('no commit to take the build time from: set SOURCE_DATE_EPOCH to the seconds since 1970')
  }
}
