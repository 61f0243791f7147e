import type { Authenticator, AuthenticatorOptions, Credential } from '../../src/auth/authenticator.ts'

/** The options of a device that accepts no issuer. */
export const NO_ISSUERS: Pick<AuthenticatorOptions, 'issuers' | 'device'> = {
  issuers: new Map(),
  device: () => ({ serial: undefined, hostname: undefined, groups: [] }),
}

/** The credential in a text that needs no issuer's signature: the API key, or a token made from it. */
export function credentialIn(authenticator: Authenticator, text: string): Credential {
  const credential = authenticator.authenticate([text], 'local')
  if (credential instanceof Promise) throw new Error('this is a token of an issuer')
  return credential
}
