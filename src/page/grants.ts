import type { Client } from './client.ts'

/** The rights of a credential. */
export interface Grants {
  readonly readsSystem: boolean
  readonly changesSystem: boolean
  readonly seesSessions: boolean
  readonly decidesSessions: boolean
  /** Whether the credential is the API key itself. */
  readonly isApiKey: boolean
}

/** Reports whether the credential has one of the grants `needs`, named as in the OpenAPI document. */
export function holdsOneOf(needs: readonly string[], grants: Grants): boolean {
  const held: Readonly<Record<string, boolean>> = {
    'admin:r': grants.readsSystem,
    'admin:w': grants.changesSystem,
    'moderator:r': grants.seesSessions,
    'moderator:w': grants.decidesSessions,
    'api-key': grants.isApiKey,
  }
  return needs.some(need => held[need])
}

/** The device's answer about a credential. */
export interface Credential {
  readonly grants: Grants
  /** The name of the device; undefined if it has none. */
  readonly deviceName: string | undefined
  /** Expiry in milliseconds since 1970; undefined if the credential does not expire. */
  readonly expiresAt: number | undefined
}

/** Asks the device about the credential. @throws {Refusal} if the credential is refused, {Unreachable} */
export async function readCredential(client: Client): Promise<Credential> {
  const { kind, grants, deviceName, expiresAt } = await client.read<{
    readonly kind: string
    readonly grants: readonly string[]
    readonly deviceName?: string
    readonly expiresAt?: string
  }>('/credential')
  return {
    grants: {
      readsSystem: grants.includes('admin:r'),
      changesSystem: grants.includes('admin:w'),
      seesSessions: grants.includes('moderator:r'),
      decidesSessions: grants.includes('moderator:w'),
      isApiKey: kind === 'api-key',
    },
    deviceName,
    expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt),
  }
}
