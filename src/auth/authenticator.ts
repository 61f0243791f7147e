import type { Clock } from '../clock.ts'
import { MAX_TOKEN_LENGTH, TOKEN_CACHE_SIZE } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { equalBytes } from './equal-bytes.ts'
import { ALL_GRANTS, type Grant } from './grants.ts'
import { type Claims, JwtVerifier, type Refusal, validity } from './jwt.ts'

/** Who asks: the API key, or a token with its claims. */
export interface Credential extends Claims {
  readonly isApiKey: boolean
  /** Which API key of this run it belongs to: a credential of an earlier one is lost. */
  readonly generation: number
}

export interface AuthenticatorOptions {
  readonly clock: Clock
  readonly log: Log
  /** When the program was built, milliseconds since 1970: a clock before it was never set. */
  readonly builtAt: number
  readonly leewayS: number
}

const CHALLENGE = 'Bearer realm="receiverd"'

const DETAIL: Readonly<Record<Refusal, string>> = {
  malformed: 'The credential is neither an API key nor a token that this device takes.',
  'bad signature': 'The token was not made from the API key in force.',
  'unknown key': 'This is not the API key in force.',
  'too long': `The credential is longer than ${MAX_TOKEN_LENGTH} characters.`,
  expired: 'The token has expired.',
  'not yet valid': 'The token is not valid yet.',
  'key replaced': 'The API key has been replaced; tokens of the old one are revoked.',
  'clock not set': 'The clock of this device is not set, so a token with exp or nbf cannot be checked.',
}

/** Turns a presented credential into what it grants, for one API key at a time. */
export class Authenticator {
  readonly #options: AuthenticatorOptions
  #key: KeyInForce
  /**
   * Verified tokens alone: a flood of bad ones drops none of the good. In two halves, of which the older is dropped as a
   * whole: one by one, the upkeep of a single map took a fifth of what a token takes that is not remembered.
   */
  #newer = new Map<string, Credential>()
  #older: ReadonlyMap<string, Credential> = this.#newer
  #clockComplained = false

  constructor(apiKey: string, options: AuthenticatorOptions) {
    this.#options = options
    this.#key = putInForce(apiKey, 0)
  }

  /** Puts a new API key in force: from here on every credential of the old one is refused. */
  replaceKey(apiKey: string): void {
    this.#key = putInForce(apiKey, this.#key.credential.generation + 1)
    this.#newer = new Map()
    this.#older = this.#newer
  }

  /**
   * The first of the presented texts that is a credential.
   * @throws {Problem} 401 with a challenge by RFC 6750 §3: without an error code where nothing was presented.
   */
  authenticate(presented: readonly string[]): Credential {
    let refusal: Refusal | undefined
    for (const text of presented) {
      const outcome = this.#check(text)
      if (typeof outcome !== 'string') return outcome
      // What is wrong with a token says more than that the same text, decoded, is nothing.
      if (refusal === undefined || outcome !== 'malformed') refusal = outcome
    }
    throw refusal === undefined
      ? unauthorized('Send the API key or a token: Authorization: Bearer …, or ?apiKey=….')
      : invalidToken(refusal)
  }

  /** @throws {Problem} 401 where a credential that was accepted does not hold any more. */
  recheck(credential: Credential): void {
    const refusal = this.refusalNow(credential)
    if (refusal !== undefined) throw invalidToken(refusal)
  }

  /**
   * Why a credential that was accepted does not hold any more; undefined while it does.
   * @param now Milliseconds since 1970, for who asks about thousands in one go.
   */
  refusalNow(credential: Credential, now = this.#options.clock.now()): Refusal | undefined {
    if (credential.generation !== this.#key.credential.generation) return 'key replaced'
    if (credential.exp === undefined && credential.nbf === undefined) return undefined
    if (now < this.#options.builtAt) {
      if (!this.#clockComplained)
        this.#options.log('warning', 'clock not set: refusing tokens with exp or nbf until it is')
      this.#clockComplained = true
      return 'clock not set'
    }
    return validity(credential, now, this.#options.leewayS)
  }

  /**
   * Milliseconds after which the credential has expired by the present clock; Infinity for one that does not. Rounded up,
   * and one more: a timer may be early by the fraction that it cuts off.
   */
  validMs(credential: Credential): number {
    const { clock, leewayS } = this.#options
    if (credential.exp === undefined) return Number.POSITIVE_INFINITY
    return Math.max(0, Math.ceil((credential.exp + leewayS) * 1000 - clock.now()) + 1)
  }

  #check(text: string): Credential | Refusal {
    if (text.length > MAX_TOKEN_LENGTH) return 'too long'
    const { bytes, credential: apiKey } = this.#key
    if (text.length === bytes.length && equalBytes(Buffer.from(text), bytes)) return apiKey
    const remembered = this.#newer.get(text) ?? this.#older.get(text)
    if (remembered) return this.refusalNow(remembered) ?? remembered
    if (!text.includes('.')) return text.length === bytes.length ? 'unknown key' : 'malformed'

    const claims = this.#key.verifier.verify(text)
    if (typeof claims === 'string') return claims
    const credential: Credential = {
      isApiKey: false,
      generation: apiKey.generation,
      ...claims,
    }
    const refusal = this.refusalNow(credential)
    if (refusal === undefined) this.#remember(text, credential)
    return refusal ?? credential
  }

  #remember(text: string, credential: Credential): void {
    if (this.#newer.size >= TOKEN_CACHE_SIZE / 2) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(text, credential)
  }
}

/** The 401 for a credential that was sent and does not hold. */
export function invalidToken(refusal: Refusal): Problem {
  return unauthorized(DETAIL[refusal], `, error="invalid_token", error_description="${refusal}"`)
}

/** The 403 of RFC 6750 §3.1. `needed` is the grant that would do, undefined where no token could. */
export function insufficientScope(detail: string, needed: Grant | undefined): Problem {
  const scope = needed === undefined ? '' : `, scope="${needed}"`
  return new Problem('forbidden', detail, {
    headers: ['WWW-Authenticate', `${CHALLENGE}, error="insufficient_scope"${scope}`],
  })
}

function unauthorized(detail: string, parameters = ''): Problem {
  return new Problem('unauthorized', detail, {
    headers: ['WWW-Authenticate', CHALLENGE + parameters],
  })
}

interface KeyInForce {
  readonly bytes: Buffer
  readonly verifier: JwtVerifier
  readonly credential: Credential
}

function putInForce(apiKey: string, generation: number): KeyInForce {
  let verifier: JwtVerifier | undefined
  return {
    bytes: Buffer.from(apiKey),
    // Made for the first token: the signing key and the code behind it take 2 ms of a start.
    get verifier() {
      verifier ??= new JwtVerifier(apiKey)
      return verifier
    },
    credential: {
      isApiKey: true,
      generation,
      grants: ALL_GRANTS,
      exp: undefined,
      nbf: undefined,
      sub: undefined,
    },
  }
}
