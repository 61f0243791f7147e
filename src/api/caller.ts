import { type Credential, holderOf } from '../auth/authenticator.ts'
import type { Request } from '../http/request.ts'

/** The caller, for the log: the address, and whose credential it is. */
export function callerOf({ address }: Request, credential: Credential): string {
  return `${address} (${holderOf(credential)})`
}
