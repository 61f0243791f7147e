import type { ListenOptions } from 'node:net'
import { join } from 'node:path'
import type { Origins } from './http/cors.ts'
import { BOUNDS, type Limits } from './limits.ts'

/** A wrong call or setting: one line for whoever made it. */
export class UsageError extends Error {}

export interface Config {
  readonly listen: ListenOptions | { readonly fd: number }
  /** Another system's root, or `/`. */
  readonly root: string
  readonly stateDir: string
  readonly origins: Origins
  readonly limits: Limits
}

/** Flags as given; what is absent comes from the environment, then from the default. */
export interface Flags {
  readonly listen?: string | undefined
  readonly root?: string | undefined
  readonly 'state-dir'?: string | undefined
}

export type Environment = Readonly<Record<string, string | undefined>>

const DEFAULT_LISTEN = '127.0.0.1:8080'
const STATE_DIR = '/var/lib/receiverd'
/** The first file descriptor that systemd passes, sd_listen_fds(3). */
const FIRST_SOCKET = 3
const ORIGIN = /^https?:\/\/[^/\s,*]+$/

/** @throws {UsageError} naming the setting, and what it takes. */
export function readConfig(flags: Flags, env: Environment, pid: number): Config {
  return {
    listen: readListen(flags, env, pid),
    root: readRoot(flags, env),
    stateDir: readStateDir(flags, env),
    origins: readOrigins(env),
    limits: readLimits(env),
  }
}

export function readRoot(flags: Flags, env: Environment): string {
  const [name, value] =
    flags.root === undefined ? ['RECEIVERD_ROOT', env.RECEIVERD_ROOT || '/'] : ['--root', flags.root]
  if (!value.startsWith('/')) throw new UsageError(`${name}: "${value}" is not an absolute path`)
  return value === '/' ? value : value.replace(/\/+$/, '')
}

/** Below the root unless it is named: with another root, nothing of the host's is used. */
export function readStateDir(flags: Flags, env: Environment): string {
  // systemd.exec(5): with more than one StateDirectory= the variable lists them, separated by colons.
  const named = flags['state-dir'] ?? env.STATE_DIRECTORY?.split(':', 1)[0]
  if (!named) return join(readRoot(flags, env), STATE_DIR)
  if (named.startsWith('/')) return named
  throw new UsageError(`${flags['state-dir'] ? '--state-dir' : 'STATE_DIRECTORY'}: "${named}" is not an absolute path`)
}

/** Milliseconds of a duration such as `90s`, `15m`, `8h`, `30d`; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  const unit = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[match?.[2] ?? '']
  return match && unit ? Number(match[1]) * unit : undefined
}

function readListen(flags: Flags, env: Environment, pid: number): Config['listen'] {
  if (env.LISTEN_PID === String(pid) && Number(env.LISTEN_FDS) > 0) return { fd: FIRST_SOCKET }
  const [name, value] =
    flags.listen === undefined
      ? ['RECEIVERD_LISTEN', env.RECEIVERD_LISTEN || DEFAULT_LISTEN]
      : ['--listen', flags.listen]
  const match = /^(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(value)
  const port = Number(match?.[3])
  if (!match || port > 65_535)
    throw new UsageError(`${name}: "${value}" is not ADDRESS:PORT, such as ${DEFAULT_LISTEN} or [::]:80`)
  return { host: match[1] ?? match[2] ?? '', port }
}

function readOrigins(env: Environment): Origins {
  const value = env.RECEIVERD_ORIGINS?.trim()
  if (!value || value === '*') return '*'
  const origins = value.split(/[\s,]+/)
  const wrong = origins.find(origin => !ORIGIN.test(origin))
  if (wrong === undefined) return origins.map(origin => origin.toLowerCase())
  throw new UsageError(
    `RECEIVERD_ORIGINS: "${wrong}" is not an origin, such as https://panel.example; separate several by commas`,
  )
}

function readLimits(env: Environment): Limits {
  const limits = BOUNDS.map(([name, bound]) => {
    const text = env[bound.env]
    if (!text) return [name, bound.fallback]
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= bound.min && value <= bound.max) return [name, value]
    throw new UsageError(`${bound.env}: "${text}" is not a whole number from ${bound.min} to ${bound.max}`)
  })
  const read = Object.fromEntries(limits) as Limits
  // Where only the streams were raised, there must be connections left to change something by.
  return env.RECEIVERD_CONNECTIONS ? read : { ...read, connections: Math.max(read.connections, 2 * read.streams) }
}
