import type { Authenticator, Credential } from '../../src/auth/authenticator.ts'

/** The credential in a text that needs no issuer's signature: the API key, or a token made from it. */
export function credentialIn(authenticator: Authenticator, text: string): Credential {
  const credential = authenticator.authenticate([text])
  if (credential instanceof Promise) throw new Error('this is a token of an issuer')
  return credential
}
