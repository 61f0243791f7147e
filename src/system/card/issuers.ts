import { isUnreadable } from '../../../hal/errors.ts'
import { type GivenIssuer, ISSUER_NAME, issuerFileIn, issuerOf } from '../../auth/issuer.ts'
import { toJsonLine } from '../../json.ts'
import { MAX_ISSUERS } from '../../limits.ts'
import type { Given, IssuerFile } from './receiver-txt.ts'

/** The folder of the issuers, beside receiver.txt. */
export const ISSUERS = 'issuers'
const FILE = new RegExp(`^${ISSUERS}/(.+)\\.json$`)
/** Characters of a wrong name that are repeated. */
const MAX_NAME = 64

/**
 * The issuers in that folder, each as it is remembered.
 * @param files The names in it.
 * @param read Reads a file of the card; undefined if it is not to be taken.
 * @param mistakes Those in it are appended.
 */
export async function readIssuers(
  files: readonly string[],
  read: (path: IssuerFile) => Promise<Buffer | undefined>,
  mistakes: string[],
): Promise<Given> {
  const given: Record<IssuerFile, string> = {}
  for (const file of files) {
    // Files that begin with a dot belong to the PC.
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
      // Editors on a PC may begin it with a byte-order mark.
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

/** The issuers that the card gives, by their names. */
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

/** The mistake if the device would have more issuers than it can. */
export function whyTooMany(names: Iterable<string>): readonly string[] {
  if (new Set(names).size <= MAX_ISSUERS) return []
  return [
    `${ISSUERS}: a device has at most ${MAX_ISSUERS} issuers, with those that the card gave before; remove some, or reset it`,
  ]
}
