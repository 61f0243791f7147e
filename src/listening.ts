import type { System } from '../hal/os/system.ts'
import type { Address } from './config.ts'
import { addressIn, isLocal } from './http/address.ts'
import { isObject, parseJson } from './json.ts'

const FILE = '/run/receiverd/listening'
const MODE = 0o644

/** Where the running service answers: systemd may pass another socket than the default, and its unit may have other options. */
export interface Listening {
  readonly api: Address
  /** The port of the TLS server in front; undefined without one. */
  readonly tlsPort: number | undefined
}

/**
 * Records where the service answers, for the other commands of this program. The one that judges a new version may connect to
 * the loopback alone (receiverd-judge.service).
 * @param urls Where the service listens.
 */
export async function recordListening(
  system: System,
  urls: readonly string[],
  tlsPort: number | undefined,
): Promise<void> {
  const api = urls.find(isLocal) ?? urls[0]
  await system.writeAtomic(FILE, `${JSON.stringify({ api, tlsPort })}\n`, MODE)
}

/** Returns where the service that started last answers; undefined if none has recorded that since the boot. */
export async function readListening(system: System): Promise<Listening | undefined> {
  try {
    const record = parseJson((await system.readBytes(FILE)) ?? Buffer.of())
    if (!isObject(record)) return undefined
    const { api, tlsPort } = record
    return { api: addressIn(String(api)), tlsPort: typeof tlsPort === 'number' ? tlsPort : undefined }
  } catch {
    return undefined
  }
}
