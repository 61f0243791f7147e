import { createHash } from 'node:crypto'

/** HTTP digest authentication with MD5 and without `qop` (RFC 2069). UxPlay 1.72 and later use it for passwords. */
export interface Challenge {
  readonly realm: string
  readonly nonce: string
}

/** AirPlay has a fixed user name. */
const USER = 'AirPlay'

export function parseChallenge(header: string): Challenge {
  const value = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(header)?.[1] ?? ''
  return { realm: value('realm'), nonce: value('nonce') }
}

export function digestHeader({ realm, nonce }: Challenge, password: string, method: string, uri: string): string {
  const response = md5(`${md5(`${USER}:${realm}:${password}`)}:${nonce}:${md5(`${method}:${uri}`)}`)
  const fields = { username: USER, realm, nonce, uri, response }
  const list = Object.entries(fields).map(([name, value]) => `${name}="${value}"`)
  return `Authorization: Digest ${list.join(', ')}`
}

function md5(text: string): string {
  return createHash('md5').update(text).digest('hex')
}
