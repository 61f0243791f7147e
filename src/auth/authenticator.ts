import type { Clock } from '../clock.ts'
import { MAX_TOKEN_LENGTH, TOKEN_CACHE_SIZE } from '../limits.ts'
import type { Log } from '../log.ts'
import { credentialRequired, type Refusal, RefusedCredential } from './challenge.ts'
import { equalBytes } from './equal-bytes.ts'
import { ALL_GRANTS } from './grants.ts'
import { type Claims, JwtVerifier, validity } from './jwt.ts'

/** A verified credential: the API key, or a token with its claims. */
export interface Credential extends Claims {
  readonly isApiKey: boolean
  /** Counts the API keys of this run. A credential of an earlier one is refused. */
  readonly generation: number
}

/** The holder of a credential, for the log: `the API key`, or `a token of panel-4`. */
export function holderOf({ isApiKey, sub }: Credential): string {
  if (isApiKey) return 'the API key'
  return sub === undefined ? 'a token' : `a token of ${sub}`
}

export interface AuthenticatorOptions {
  readonly clock: Clock
  readonly log: Log
  /** When the program was built, milliseconds since 1970. A clock before it has not been set. */
  readonly builtAt: number
  readonly leewayS: number
  /** Called for the first credential that is accepted. */
  readonly onFirstUse?: () => void
}

/** Three parts, separated by dots. */
const TOKEN = /^[^.]+\.[^.]+\.[^.]+$/
const EMPTY =
  'The credential is empty. With Basic, the API key or token is the password and not the user name: curl -u :CREDENTIAL.'

const BAD_TOKEN =
  'The token is malformed. It must be signed with HS256, its roles must be a list such as ["admin:r"], and exp and nbf must ' +
  'be numbers of seconds since 1970.'

/** The likely mistake in a malformed credential; undefined if it resembles no known one. */
function malformed(presented: readonly string[]): string | undefined {
  if (presented.includes('')) return EMPTY
  return presented.some(text => TOKEN.test(text)) ? BAD_TOKEN : undefined
}

/** Turns a presented credential into what it grants, for one API key at a time. */
export class Authenticator {
  readonly #options: AuthenticatorOptions
  /** Undefined while no API key is in force. */
  #key: KeyInForce | undefined
  /** Counts the API keys of this run. */
  #generation = 0
  /**
   * Tokens that were verified; refused ones are not remembered, so a flood of them drops no good one. In two halves, of
   * which the older is dropped as a whole: to drop tokens one by one from a single map took a fifth of what a token takes
   * that is not remembered.
   */
  #newer = new Map<string, Credential>()
  #older: ReadonlyMap<string, Credential> = this.#newer
  #hasWarnedOfClock = false
  #onFirstUse: (() => void) | undefined

  /** @param apiKey Undefined if it cannot be read: then every credential is refused. */
  constructor(apiKey: string | undefined, options: AuthenticatorOptions) {
    this.#options = options
    this.#onFirstUse = options.onFirstUse
    if (apiKey !== undefined) this.#key = putInForce(apiKey, this.#generation)
  }

  /** Puts a new API key in force: from here on every credential of the old one is refused. */
  replaceKey(apiKey: string): void {
    this.#key = putInForce(apiKey, ++this.#generation)
    this.#newer = new Map()
    this.#older = this.#newer
  }

  /**
   * The first of the presented texts that is a credential.
   * @throws {Problem} 401
   */
  authenticate(presented: readonly string[]): Credential {
    let refusal: Refusal | undefined
    for (const text of presented) {
      const outcome = this.#check(text)
      if (typeof outcome !== 'string') {
        if (this.#onFirstUse) this.#firstUse()
        return outcome
      }
      // An error in a token says more than that the same text, decoded, is malformed.
      if (refusal === undefined || outcome !== 'malformed') refusal = outcome
    }
    if (refusal === undefined) throw credentialRequired()
    throw new RefusedCredential(refusal, refusal === 'malformed' ? malformed(presented) : undefined)
  }

  /** @throws {Problem} 401 if a credential that was accepted does not hold any more. */
  recheck(credential: Credential): void {
    const refusal = this.refusalNow(credential)
    if (refusal !== undefined) throw new RefusedCredential(refusal)
  }

  /**
   * Why a credential that was accepted does not hold any more; undefined while it does.
   * @param now Milliseconds since 1970, for a caller that checks thousands at once.
   */
  refusalNow(credential: Credential, now = this.#options.clock.now()): Refusal | undefined {
    if (credential.generation !== this.#generation) return 'key replaced'
    if (credential.exp === undefined && credential.nbf === undefined) return undefined
    if (now < this.#options.builtAt) {
      if (!this.#hasWarnedOfClock)
        this.#options.log('warning', 'clock not set: refusing tokens with exp or nbf until it is')
      this.#hasWarnedOfClock = true
      return 'clock not set'
    }
    return validity(credential, now, this.#options.leewayS)
  }

  /**
   * Milliseconds until the credential expires by the present clock; Infinity if it never does. Rounded up, plus one: a
   * timer may fire early by the fraction that it cuts off.
   */
  validMs(credential: Credential): number {
    const { clock, leewayS } = this.#options
    if (credential.exp === undefined) return Number.POSITIVE_INFINITY
    return Math.max(0, Math.ceil((credential.exp + leewayS) * 1000 - clock.now()) + 1)
  }

  #firstUse(): void {
    const tell = this.#onFirstUse
    this.#onFirstUse = undefined
    tell?.()
  }

  #check(text: string): Credential | Refusal {
    if (text.length > MAX_TOKEN_LENGTH) return 'too long'
    if (!this.#key) return 'key unreadable'
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

interface KeyInForce {
  readonly bytes: Buffer
  readonly verifier: JwtVerifier
  readonly credential: Credential
}

function putInForce(apiKey: string, generation: number): KeyInForce {
  let verifier: JwtVerifier | undefined
  return {
    bytes: Buffer.from(apiKey),
    // Made for the first token: deriving the signing key and loading its code take 2 ms of a start.
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
