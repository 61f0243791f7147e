import type { Run } from '../../hal/os/command.ts'
import { addressOf, lookUp } from './access.ts'
import type { Fleet, FleetDevice, Proof, Secret } from './fleet-file.ts'
import { KeyFile } from './key-file.ts'

/**
 * The devices as JSON, for the inventory plugin in ansible/plugins/inventory: `{name, groups, settings}` of each, and if known
 * `address`, `serial`, `pin` or `ca`, and `key`, which is `{text}`, `{env}`, `{file}`, or `{file, device}` for the line of a
 * key file. Paths are absolute.
 * @throws {UsageError} for a key file that cannot be read. {CommandError} if avahi cannot be asked.
 */
export async function inventoryOf({ keys, token }: Fleet, devices: readonly FleetDevice[], run: Run): Promise<string> {
  const placesOf = await lookUp(devices, run)
  // A device may be missing in the key file only if there is a token.
  const known = keys !== undefined && token ? await new KeyFile(keys).read() : undefined
  const members = devices.map(device => {
    const { name, groups, serial, proof, key, settings } = device
    const [place] = placesOf(device) ?? []
    const inFile = keys !== undefined && (known?.has(name) ?? true) ? { file: keys, device: name } : undefined
    const credential = key ? secretOf(key) : (inFile ?? (token && secretOf(token)))
    return {
      name,
      ...(place && { address: addressOf(place, proof) }),
      ...(serial !== '' && { serial }),
      ...proofOf(proof),
      ...(credential && { key: credential }),
      groups,
      settings,
    }
  })
  return `${JSON.stringify(members, null, 2)}\n`
}

function proofOf(proof: Proof): object {
  if (proof.kind === 'pin') return { pin: `sha256//${proof.pin}` }
  if (proof.kind === 'fingerprint') return { pin: proof.fingerprint }
  return proof.kind === 'ca' ? { ca: proof.path } : {}
}

function secretOf(secret: Secret): object {
  if (secret.kind === 'text') return { text: secret.text }
  return secret.kind === 'env' ? { env: secret.name } : { file: secret.path }
}
