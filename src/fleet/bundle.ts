import type { LargeFile } from '../../hal/files/read.ts'
import { printable } from '../log.ts'

/** Bytes of the size with which a bundle ends. */
const SIZE_BYTES = 8
/** Limit on a signature in bytes, certificates included: RAUC's own has about 1,500. */
const MAX_SIGNATURE_BYTES = 64 * 1024
const MANIFEST_VERSION = /\[update\]\n(?:[^[\n][^\n]*\n)*?version=([^\n]+)\n/

/**
 * Returns the version in the manifest of a firmware bundle; undefined if the manifest cannot be read here. A bundle ends with
 * its signature (CMS), and the signature's size. In the format `verity`, the manifest is within the signature, in clear. The
 * signature is not verified: the file is the owner's, and each device verifies it.
 */
export async function versionIn(file: LargeFile): Promise<string | undefined> {
  const sizeAt = file.bytes - SIZE_BYTES
  if (sizeAt < 0) return undefined
  const size = (await restOf(file, sizeAt)).readBigUInt64BE()
  if (size > Math.min(sizeAt, MAX_SIGNATURE_BYTES)) return undefined
  const signature = await restOf(file, sizeAt - Number(size))
  // Around the manifest, which is in UTF-8, the signature is no text.
  const [, version] = MANIFEST_VERSION.exec(signature.toString('latin1')) ?? []
  return version === undefined ? undefined : printable(Buffer.from(version, 'latin1').toString().trim())
}

async function restOf(file: LargeFile, from: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of file.chunks(from)) chunks.push(chunk)
  return Buffer.concat(chunks)
}
