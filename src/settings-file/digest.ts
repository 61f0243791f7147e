import { createHash } from 'node:crypto'
import { toCanonicalJson } from '../json.ts'
import { type Schema, savedSettings } from './settings-file.ts'

/**
 * Returns the digest of a device's settings, again and again: the SHA-256, in hexadecimal, of those that a file of saved
 * settings without identity has, as canonical JSON (RFC 8785). Devices with the same digest are set up alike.
 * @param schema Of the configuration.
 * @param json The configuration as it is. While it stays the same, nothing is computed.
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
