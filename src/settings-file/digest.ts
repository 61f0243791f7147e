import { createHash } from 'node:crypto'
import { toCanonicalJson } from '../json.ts'
import { type Schema, savedSettings } from './settings-file.ts'

/**
 * Returns a function that computes the digest of a device's settings: the SHA-256, in hexadecimal, of the settings in a file
 * saved without identity, as canonical JSON (RFC 8785). Devices with the same digest are set up alike.
 * @param schema The schema of the configuration.
 * @param json Returns the current configuration. While it stays the same, nothing is computed.
 */
export function digester(schema: Schema, json: () => string): () => string {
  let last: { readonly json: string; readonly digest: string } | undefined
  return () => {
    const present = json()
    if (last?.json !== present) {
      const canonical = toCanonicalJson(savedSettings(schema, JSON.parse(present), false))
      last = { json: present, digest: createHash('sha256').update(canonical).digest('hex') }
    }
    return last.digest
  }
}
