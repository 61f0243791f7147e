/** WireGuard with wireguard-go(1), which does not need the kernel's. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from './eventually.ts'
import { temporaryFolder } from './folder.ts'

export const wg = (...args: readonly string[]) => execFileSync('wg', args, { encoding: 'utf8' }).trim()

export interface KeyPair {
  readonly privateKey: string
  readonly publicKey: string
}

export function newKeyPair(): KeyPair {
  const privateKey = wg('genkey')
  return { privateKey, publicKey: execFileSync('wg', ['pubkey'], { input: privateKey, encoding: 'utf8' }).trim() }
}

/** Makes an interface with a key of its own, which is not yet up. Returns its public key. */
export async function startWireGuard(t: Pick<Test, 'teardown'>, name: string): Promise<string> {
  const { privateKey, publicKey } = newKeyPair()
  const keyFile = join(temporaryFolder(t), 'key')
  writeFileSync(keyFile, privateKey, { mode: 0o600 })
  const program = spawn('wireguard-go', ['--foreground', name], { stdio: 'ignore' })
  t.teardown(() => program.kill())
  await eventually(() => existsSync(`/run/wireguard/${name}.sock`))
  wg('set', name, 'private-key', keyFile)
  return publicKey
}

/** The UDP port of an interface, which it chooses once it is up. */
export async function portOf(name: string): Promise<number> {
  return eventually(() => Number(wg('show', name, 'listen-port')) || false)
}
