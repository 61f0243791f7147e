import { type Credential, holderOf } from '../auth/authenticator.ts'
import type { Request } from '../http/request.ts'

/** Returns the caller, for the log: the address, and the holder of the credential. */
export function callerOf({ address }: Request, credential: Credential): string {
  return `${address} (${holderOf(credential)})`
}
