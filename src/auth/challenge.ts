/** The refusals of authentication and authorization, as RFC 6750 §3 has them. */
import { MAX_TOKEN_LENGTH } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { Grant } from './grants.ts'

/** Why a credential is refused. */
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

const CHALLENGE = 'Bearer realm="receiverd"'

const DETAIL: Readonly<Record<Refusal, string>> = {
  malformed:
    'The credential is neither an API key (43 characters, unless the device was given its key) nor a token (three parts, ' +
    'separated by dots).',
  'bad signature': 'The token was not made from the API key in force.',
  'unknown key': 'This is not the API key in force.',
  'too long': `The credential is longer than ${MAX_TOKEN_LENGTH} characters.`,
  expired: 'The token has expired.',
  'not yet valid': 'The token is not valid yet.',
  'key replaced': 'The API key has been replaced, which revoked all tokens made from the old one.',
  'clock not set': 'The clock of this device is not set, so a token with exp or nbf cannot be checked.',
  'key unreadable':
    'The API key of this device cannot be read, so no credential is accepted. Its log has the reason; `receiverd key rotate` ' +
    'on the device makes a new key.',
}

/** The 401 for a credential that was sent and is refused. */
export class RefusedCredential extends Problem {
  readonly refusal: Refusal

  /** @param detail What helps whoever sent it; never the credential itself. */
  constructor(refusal: Refusal, detail = DETAIL[refusal]) {
    super('unauthorized', detail, {
      headers: ['WWW-Authenticate', `${CHALLENGE}, error="invalid_token", error_description="${refusal}"`],
    })
    this.refusal = refusal
  }
}

/** The 401 for a request without a credential: without an error code (RFC 6750 §3.1). */
export function credentialRequired(): Problem {
  return new Problem(
    'unauthorized',
    'Send the API key or a token, as Authorization: Bearer CREDENTIAL or as ?apiKey=CREDENTIAL.',
    { headers: ['WWW-Authenticate', CHALLENGE] },
  )
}

/** The 403 of RFC 6750 §3.1. `sufficient` are the grants of which any would do; none if no token could. */
export function insufficientScope(detail: string, sufficient: readonly Grant[]): Problem {
  const scope = sufficient.length === 0 ? '' : `, scope="${sufficient.join(' ')}"`
  return new Problem('forbidden', detail, {
    headers: ['WWW-Authenticate', `${CHALLENGE}, error="insufficient_scope"${scope}`],
  })
}
