// The device that is measured, unpacked from the one file.
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { requestText } from '../wire.ts'

/** Put in by the build: the programs, and a device's root. Strings are latin1, which holds every byte. */
declare const __PROGRAMS__: Readonly<Record<Program, string>>
declare const __ROOT__: readonly { readonly path: string; readonly text?: string; readonly link?: string }[]

type Program = 'receiverd' | 'bare' | 'clients'

export interface Device {
  readonly root: string
  /** Where each program is. */
  readonly programs: Readonly<Record<Program, string>>
  readonly version: string
  readonly requests: Readonly<Record<'get' | 'follow' | 'patch', string>>
}

/** All that a Node may need to start: the servers get nothing else of the caller's environment. */
export const ENV = { PATH: process.env.PATH, LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH }

/** Unpacks everything into a folder, and gives the device a key. */
export function unpack(folder: string): Device {
  const root = join(folder, 'root')
  const programs = { receiverd: '', bare: '', clients: '' }
  for (const name of ['receiverd', 'bare', 'clients'] as const) {
    programs[name] = join(folder, `${name}.cjs`)
    writeFileSync(programs[name], __PROGRAMS__[name], 'latin1')
  }
  for (const { path, text, link } of __ROOT__) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    if (link === undefined) writeFileSync(join(root, path), text ?? '', 'latin1')
    else symlinkSync(link, join(root, path))
  }
  const receiverd = (...args: readonly string[]) =>
    execFileSync(process.execPath, [programs.receiverd, ...args], { encoding: 'utf8', env: ENV }).trim()
  receiverd('key', 'rotate', '--root', root)
  const token = receiverd('token', '--role', 'admin:rw', '--root', root)
  return {
    root,
    programs,
    version: receiverd('--version').replace('receiverd ', ''),
    requests: {
      get: requestText({ path: '/api/v1/system', token }),
      follow: requestText({ path: '/api/v1/events', token, headers: ['Accept: text/event-stream'] }),
      patch: requestText({ method: 'PATCH', path: '/api/v1/system', token, body: '{"deviceName":"bench-########"}' }),
    },
  }
}
