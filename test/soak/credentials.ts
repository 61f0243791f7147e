/** Credentials of every kind, with a model of when each is good. */
import { randomBytes } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { mint } from '../../src/auth/jwt.ts'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import type { Random } from '../support/random.ts'
import type { SoakedService } from './service.ts'

/** Seconds around a moment in which a clock that is asked twice may say either. */
const SLACK_S = 3
const KEY_FILE = 'var/lib/receiverd/api-key'
const ROLES = ['admin:rw', 'moderator:rw']
const LIVES_S = [2, 5, 60, 3600, 86_400] as const

export interface Credential {
  readonly text: string
  readonly kind: 'key' | 'token' | 'issuer'
  /** The API key that it is, or is made from; of an issuer, its public key. */
  readonly of: string
  /** Seconds since 1970. */
  readonly iat: number | undefined
  readonly exp: number | undefined
}

/** Credentials for the service, and whether each may come in. */
export class Credentials {
  readonly #service: SoakedService
  readonly #random: Random
  #issuer: TestIssuer | undefined
  /** While a key or an issuer is replaced, the old one and the new one may be in force. */
  #isChanging = false

  constructor(service: SoakedService, random: Random) {
    this.#service = service
    this.#random = random
  }

  /** A good credential. */
  fresh(): Credential {
    const { key } = this.#service
    const now = Math.floor(this.#service.now() / 1000)
    const kind = this.#random.below(4)
    if (kind === 0) return { text: key, kind: 'key', of: key, iat: undefined, exp: undefined }
    const { isClockSet } = this.#service
    const exp = now + this.#random.pick(LIVES_S)
    if (kind === 1 && this.#issuer && isClockSet) {
      const text = this.#issuer.token({ roles: ROLES, iat: now, exp })
      return { text, kind: 'issuer', of: this.#issuer.publicKey, iat: now, exp }
    }
    // Some never expire: those are good whatever the clock says.
    const claims = isClockSet && this.#random.chance(0.7) ? { exp, sub: `panel-${now % 7}` } : {}
    const { exp: until } = claims as { exp?: number }
    return { text: mint(key, { roles: ROLES, ...claims }), kind: 'token', of: key, iat: undefined, exp: until }
  }

  /** Whether it is good; undefined within seconds of the moment at which that changes, and while the clock is stepped. */
  isGood({ kind, of, iat, exp }: Credential): boolean | undefined {
    if (this.#isChanging) return undefined
    if (of !== (kind === 'issuer' ? this.#issuer?.publicKey : this.#service.key)) return false
    if (exp === undefined) return true
    if (this.#service.isStepping) return undefined
    const now = this.#service.now() / 1000
    if (!this.#service.isClockSet) return false
    if (Math.abs(now - exp) < SLACK_S) return undefined
    if (iat !== undefined && Math.abs(now + 60 - iat) < SLACK_S) return undefined
    return now < exp && (iat === undefined || iat <= now + 60)
  }

  /** An issuer comes, is replaced by one of the same name, or goes. */
  changeIssuer(): Promise<void> {
    return this.#change(() => this.#putIssuer())
  }

  /** A new key by the API, or in the file. */
  rotate(): Promise<void> {
    return this.#change(() => (this.#random.chance(0.7) ? this.#rotate() : this.#replaceFile()))
  }

  async #change(change: () => Promise<void>): Promise<void> {
    this.#isChanging = true
    try {
      await change()
    } finally {
      this.#isChanging = false
    }
  }

  async #putIssuer(): Promise<void> {
    const isGoing = this.#issuer !== undefined && this.#random.chance(0.3)
    const next = isGoing ? undefined : new TestIssuer('soak', this.#random.pick(['EdDSA', 'ES256']))
    const body = next?.file()
    const headers = { 'Content-Type': 'application/json' }
    const answer = await this.#service.fetch(
      '/issuers/soak',
      next ? { method: 'PUT', body: body ?? '', headers } : { method: 'DELETE' },
    )
    if (!answer.ok) throw new Error(`issuers: ${answer.status} ${await answer.text()}`)
    this.#issuer = next
  }

  async #rotate(): Promise<void> {
    const answer = await this.#service.fetch('/api-key', { method: 'POST' })
    const { apiKey } = (await answer.json()) as { apiKey?: string }
    if (apiKey === undefined || apiKey !== this.#service.key)
      throw new Error(`the new key is not in its file: ${answer.status}`)
  }

  async #replaceFile(): Promise<void> {
    const old = this.#service.key
    const path = this.#service.path(KEY_FILE)
    writeFileSync(`${path}.new`, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
    renameSync(`${path}.new`, path)
    await eventually(async () => (await this.#service.fetchAs(old)).status === 401)
    await eventually(async () => (await this.#service.fetch('/system')).ok)
  }
}
