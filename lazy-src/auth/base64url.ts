/**
 * Canonical base64url (RFC 7515 §2, RFC 4648 §3.5) as the source of regular expressions. The bits that the last character
 * has to spare are 0, so that given bytes have one spelling: a key and a token have only one too.
 */
export const ANY_BYTES = '(?:[\\w-]{4})*(?:[\\w-][AQgw]|[\\w-]{2}[AEIMQUYcgkosw048])?'
export const BYTES_32 = '[\\w-]{42}[AEIMQUYcgkosw048]'
