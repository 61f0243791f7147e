import type { Clock } from '../clock.ts'
import { MAX_SUBJECT_LENGTH, MAX_TOKEN_LENGTH, TOKEN_CACHE_SIZE } from '../limits.ts'
import type { Log } from '../log.ts'
import { credentialRequired, type Refusal, RefusedCredential } from './challenge.ts'
import { equalBytes } from './equal-bytes.ts'
import { ALL_GRANTS } from './grants.ts'
import { type DeviceNames, hasLongSignature, type Issued, IssuedTokens } from './issued-tokens.ts'
import type { Issuer } from './issuer.ts'
import { type Claims, JwtVerifier, validity } from './jwt.ts'

/** A verified credential: the API key, or a token with its claims. */
export interface Credential extends Claims {
  readonly isApiKey: boolean
  /** The number of the API key in this run. A credential made from an earlier one is refused. */
  readonly generation: number
  /** Present for a token that an issuer signed. */
  readonly issued?: Issued
}

/** The generation of credentials that do not depend on the API key. */
const OF_NO_KEY = -1

/** The subject of the tokens with which this device judges an update. */
export const JUDGE = 'receiverd update judge'

/** Returns the holder for the log: `the API key`, `a token of panel-4`, or `a token of ops, by the issuer fleet`. */
export function holderOf({ isApiKey, sub, issued }: Credential): string {
  if (isApiKey) return 'the API key'
  const token = sub === undefined ? 'a token' : `a token of ${subjectOf(sub)}`
  return issued ? `${token}, by the issuer ${issued.issuer.name}` : token
}

/** An issuer may choose any subject. It must neither look like the rest of a record, nor leave no room for that. */
function subjectOf(sub: string): string {
  const start = sub.slice(0, MAX_SUBJECT_LENGTH)
  return /[(),"]/.test(start) ? JSON.stringify(start) : start
}

export interface AuthenticatorOptions {
  readonly clock: Clock
  readonly log: Log
  /** When the program was built, in milliseconds since 1970. A clock that is earlier has not been set. */
  readonly builtAt: number
  readonly leewayS: number
  /** Called when the API key, or a token made from it, is accepted for the first time. */
  readonly onFirstUse?: () => void
  /** The issuers whose tokens are accepted. */
  readonly issuers: { get(name: string): Issuer | undefined }
  /** The names of this device, for `aud`. */
  readonly device: () => DeviceNames
}

/** Matches three parts, separated by dots. */
const TOKEN = /^[^.]+\.[^.]+\.[^.]+$/
const EMPTY =
  'The credential is empty. With Basic, the API key or token is the password and not the user name: curl -u :CREDENTIAL.'

const BAD_TOKEN =
  'The token is malformed. It must be signed with HS256, its roles must be a list such as ["admin:r"], and exp and nbf must ' +
  'be numbers of seconds since 1970. A token of an issuer must be signed with EdDSA or ES256, as suits its key, and have kid ' +
  '(the name of the issuer), iat and exp.'

/** Returns the likely mistake in a malformed credential; undefined if it resembles no known one. */
function malformed(presented: readonly string[]): string | undefined {
  if (presented.includes('')) return EMPTY
  return presented.some(text => TOKEN.test(text)) ? BAD_TOKEN : undefined
}

/** Turns presented credentials into verified ones, for one API key at a time. */
export class Authenticator {
  readonly #options: AuthenticatorOptions
  readonly #issued: IssuedTokens
  /** Undefined while no API key is in force. */
  #key: KeyInForce | undefined
  /** The number of the API key in this run. */
  #generation = 0
  /**
   * Verified tokens. Refused tokens are not kept, so a flood of them evicts no valid one. There are two halves, the older of
   * which is dropped as a whole: dropping tokens one by one from a single map took a fifth of the time of a token that is not
   * cached.
   */
  #newer = new Map<string, Credential>()
  #older: ReadonlyMap<string, Credential> = this.#newer
  #hasWarnedOfClock = false
  #onFirstUse: (() => void) | undefined

  /** @param apiKey Undefined if it cannot be read: then only tokens of issuers are accepted. */
  constructor(apiKey: string | undefined, options: AuthenticatorOptions) {
    this.#options = options
    this.#onFirstUse = options.onFirstUse
    const { issuers, device } = options
    this.#issued = new IssuedTokens({ issuer: name => issuers.get(name), device })
    if (apiKey !== undefined) this.#key = putInForce(apiKey, this.#generation)
  }

  /** Puts a new API key in force. From then on, every credential of the old one is refused. */
  replaceKey(apiKey: string): void {
    this.#key = putInForce(apiKey, ++this.#generation)
    this.#newer = new Map()
    this.#older = this.#newer
  }

  /**
   * Returns the first presented text that is a valid credential; a promise if it is a new token of an issuer.
   * @param network The network under which the client is counted.
   * @throws {Problem} 401; 503 if too many tokens of issuers wait to be verified.
   */
  authenticate(presented: readonly string[], network: string): Credential | Promise<Credential> {
    return this.#first(presented, network, 0, undefined)
  }

  /** Tries the texts from `at` on. @param refusal Why the texts before it were refused. */
  #first(
    presented: readonly string[],
    network: string,
    at: number,
    refusal: Refusal | undefined,
  ): Credential | Promise<Credential> {
    let why = refusal
    for (let n = at; n < presented.length; n++) {
      const outcome = this.#check(presented[n] as string, network)
      if (typeof outcome === 'string') why = moreTelling(why, outcome)
      else if (outcome instanceof Promise)
        return outcome.then(later =>
          typeof later === 'string' ? this.#first(presented, network, n + 1, moreTelling(why, later)) : later,
        )
      else {
        const tell = this.#onFirstUse
        // The judge is nobody who could keep the key, which may be nowhere but on the screen until its first use.
        if (tell && !outcome.issued && outcome.sub !== JUDGE) {
          this.#onFirstUse = undefined
          tell()
        }
        return outcome
      }
    }
    if (why === undefined) throw credentialRequired()
    throw new RefusedCredential(why, why === 'malformed' ? malformed(presented) : undefined)
  }

  /** @throws {Problem} 401 if a credential that was accepted is no longer valid. */
  recheck(credential: Credential): void {
    const refusal = this.refusalNow(credential)
    if (refusal !== undefined) throw new RefusedCredential(refusal)
  }

  /**
   * Returns why a credential that was accepted is no longer valid; undefined while it is.
   * @param now Milliseconds since 1970, for callers that check thousands at once.
   */
  refusalNow(credential: Credential, now = this.#options.clock.now()): Refusal | undefined {
    if (credential.generation !== this.#generation) {
      const { issued } = credential
      if (!issued) return 'key replaced'
      return this.#isClockSet(now) ? this.#issued.refusalNow(issued, credential, now) : 'clock not set'
    }
    if (credential.exp === undefined && credential.nbf === undefined) return undefined
    return this.#isClockSet(now) ? validity(credential, now, this.#options.leewayS) : 'clock not set'
  }

  /**
   * Returns the milliseconds until the credential expires by the current clock; Infinity if it never does. Rounded up, plus
   * one: a timer may fire early by the fraction that it cuts off.
   */
  validMs(credential: Credential): number {
    const { clock, leewayS } = this.#options
    if (credential.exp === undefined) return Number.POSITIVE_INFINITY
    const stretchedS = credential.issued ? 0 : leewayS
    return Math.max(0, Math.ceil((credential.exp + stretchedS) * 1000 - clock.now()) + 1)
  }

  #isClockSet(now: number): boolean {
    if (now >= this.#options.builtAt) return true
    if (!this.#hasWarnedOfClock)
      this.#options.log('warning', 'clock not set: refusing tokens with exp or nbf until it is')
    this.#hasWarnedOfClock = true
    return false
  }

  #check(text: string, network: string): Credential | Refusal | Promise<Credential | Refusal> {
    if (text.length > MAX_TOKEN_LENGTH) return 'too long'
    const key = this.#key
    if (text.length === key?.bytes.length && equalBytes(Buffer.from(text), key.bytes)) return key.credential
    const remembered = this.#newer.get(text) ?? this.#older.get(text)
    if (remembered) return this.refusalNow(remembered) ?? remembered
    if (hasLongSignature(text)) return this.#checkIssued(text, network)
    if (!key) return 'key unreadable'
    if (!text.includes('.')) return text.length === key.bytes.length ? 'unknown key' : 'malformed'

    const claims = key.verifier.verify(text)
    if (typeof claims === 'string') return claims
    return this.#believed(text, { isApiKey: false, generation: key.credential.generation, ...claims })
  }

  #checkIssued(text: string, network: string): Refusal | Promise<Credential | Refusal> {
    const outcome = this.#issued.verify(text, network)
    if (typeof outcome === 'string') return outcome
    return outcome.then(claims =>
      typeof claims === 'string' ? claims : this.#believed(text, { isApiKey: false, generation: OF_NO_KEY, ...claims }),
    )
  }

  /** Accepts and caches a token whose signature is valid, unless its claims do not hold now. */
  #believed(text: string, credential: Credential): Credential | Refusal {
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

/** Chooses the refusal to report: an error in a token says more than that the same text, decoded, is malformed. */
function moreTelling(before: Refusal | undefined, refusal: Refusal): Refusal {
  return before === undefined || refusal !== 'malformed' ? refusal : before
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
    // Created for the first token: deriving the signing key and loading its code take 2 ms of the start time.
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
