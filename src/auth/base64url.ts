/**
 * Canonical base64url (RFC 7515 §2, RFC 4648 §3.5), as the source of regular expressions. The spare bits of the last
 * character are 0, so that bytes have only one spelling, and so do keys and tokens.
 */
export const SOME_BYTES = '(?:[\\w-]{4})*(?:[\\w-]{4}|[\\w-][AQgw]|[\\w-]{2}[AEIMQUYcgkosw048])'
export const BYTES_64 = '[\\w-]{85}[AQgw]'
export const BYTES_32 = '[\\w-]{42}[AEIMQUYcgkosw048]'
