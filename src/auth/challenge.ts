/** The refusals of authentication and authorization, in the form of RFC 6750 §3. */
import { MAX_TOKEN_LENGTH } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { Grant } from './grants.ts'

/** Why a credential was refused. */
export type Refusal =
  | 'malformed'
  | 'bad signature'
  | 'unknown key'
  | 'too long'
  | 'expired'
  | 'not yet valid'
  | 'key replaced'
  | 'clock not set'
  | 'key unreadable'
  | 'unknown issuer'
  | 'roles exceed those of the issuer'
  | 'lifetime exceeds that of the issuer'
  | 'not for this device'
  | 'issuer removed'
  | 'issuer changed'

const CHALLENGE = 'Bearer realm="receiverd"'

const DETAIL: Readonly<Record<Refusal, string>> = {
  malformed:
    'The credential is neither an API key (43 characters, unless the device was given its key) nor a token (three parts, ' +
    'separated by dots).',
  'bad signature': 'The token was not made from the API key in force, or not by the issuer that it names.',
  'unknown key': 'This is not the API key in force.',
  'too long': `The credential is longer than ${MAX_TOKEN_LENGTH} characters.`,
  expired: 'The token has expired.',
  'not yet valid': 'The token is not valid yet.',
  'key replaced': 'The API key has been replaced, which revoked all tokens made from the old one.',
  'clock not set': 'The clock of this device is not set, so it cannot check when a token is valid (exp, nbf).',
  'key unreadable':
    'The API key of this device cannot be read, so only tokens of issuers are accepted. Its log has the reason; `receiverd key rotate` ' +
    'on the device makes a new key.',
  'unknown issuer': 'This device has no issuer of the name in kid.',
  'roles exceed those of the issuer': 'The token asks for more than its issuer may grant on this device.',
  'lifetime exceeds that of the issuer':
    'From iat to exp, the token lives longer than its issuer may let it on this device.',
  'not for this device':
    'The aud of the token does not name this device. It must have one of serial:S, host:H, group:G and *; a token that ' +
    'grants no writing may do without aud.',
  'issuer removed': 'The issuer of the token has been removed from this device.',
  'issuer changed': 'The issuer of the token has another key on this device, or may not make such a token any more.',
}

/** The 401 for a credential that was sent but refused. */
export class RefusedCredential extends Problem {
  readonly refusal: Refusal

  /** @param detail Text that helps the sender; never the credential itself. */
  constructor(refusal: Refusal, detail = DETAIL[refusal]) {
    super('unauthorized', detail, {
      headers: ['WWW-Authenticate', `${CHALLENGE}, error="invalid_token", error_description="${refusal}"`],
    })
    this.refusal = refusal
  }
}

/** Returns the 401 for a request without a credential, which has no error code (RFC 6750 §3.1). */
export function credentialRequired(): Problem {
  return new Problem(
    'unauthorized',
    'Send the API key or a token, as Authorization: Bearer CREDENTIAL or as ?apiKey=CREDENTIAL.',
    { headers: ['WWW-Authenticate', CHALLENGE] },
  )
}

/** Returns the 403 of RFC 6750 §3.1. @param sufficient Grants of which one would suffice; empty if no token could. */
export function insufficientScope(detail: string, sufficient: readonly Grant[]): Problem {
  const scope = sufficient.length === 0 ? '' : `, scope="${sufficient.join(' ')}"`
  return new Problem('forbidden', detail, {
    headers: ['WWW-Authenticate', `${CHALLENGE}, error="insufficient_scope"${scope}`],
  })
}
