import { isUnreadable } from '../../../hal/errors.ts'
import { type GivenIssuer, ISSUER_NAME, issuerFileIn, issuerOf } from '../../auth/issuer.ts'
import { toJsonLine } from '../../json.ts'
import { MAX_ISSUERS } from '../../limits.ts'
import type { Given, IssuerFile } from './receiver-txt.ts'

/** The folder of the issuers, next to receiver.txt. */
export const ISSUERS = 'issuers'
const FILE = new RegExp(`^${ISSUERS}/(.+)\\.json$`)
/** Maximum number of characters quoted from an invalid name. */
const MAX_NAME = 64

/**
 * Reads the issuers in that folder, in the form in which they are remembered.
 * @param files The names of the files in it.
 * @param read Reads a file of the card; undefined if it must not be applied.
 * @param mistakes The list to which mistakes are appended.
 */
export async function readIssuers(
  files: readonly string[],
  read: (path: IssuerFile) => Promise<Buffer | undefined>,
  mistakes: string[],
): Promise<Given> {
  const given: Record<IssuerFile, string> = {}
  for (const file of files) {
    // Files that begin with a dot are created by the PC.
    if (file.startsWith('.')) continue
    const path = `${ISSUERS}/${file}` as IssuerFile
    const [, name = ''] = FILE.exec(path) ?? []
    if (!ISSUER_NAME.test(name)) {
      const shown = toJsonLine(file.slice(0, MAX_NAME))
      mistakes.push(`${ISSUERS}: ${shown} must be called NAME.json, where NAME is 1 to 32 characters of a-z, 0-9 and -`)
      continue
    }
    const bytes = await read(path)
    if (!bytes) continue
    try {
      // Editors on a PC may put a byte-order mark at the beginning.
      const issuer = issuerIn(bytes.toString().replace(/^\ufeff/, ''))
      issuerOf(name, issuer, 'card')
      given[path] = JSON.stringify(issuer)
    } catch (error) {
      if (!isUnreadable(error)) throw error
      mistakes.push(`${path}: ${error.message}`)
    }
  }
  return given
}

/** Returns the issuers from the card, by name. */
export function issuersIn(given: Given): ReadonlyMap<string, GivenIssuer> {
  const found = new Map<string, GivenIssuer>()
  for (const [path, text] of Object.entries(given)) {
    const [, name] = FILE.exec(path) ?? []
    if (name !== undefined && text !== undefined) found.set(name, issuerIn(text))
  }
  return found
}

function issuerIn(text: string): GivenIssuer {
  const { source: _, ...given } = issuerFileIn(Buffer.from(text))
  return given
}

/** Returns the mistake if the device would have too many issuers. */
export function whyTooMany(names: Iterable<string>): readonly string[] {
  if (new Set(names).size <= MAX_ISSUERS) return []
  return [
    `${ISSUERS}: a device has at most ${MAX_ISSUERS} issuers, with those that the card gave before; remove some, or reset it`,
  ]
}
