/**
 * The part of FairPlay that a test client needs. All messages are constant, so the key that a receiver decrypts from
 * ENCRYPTED_KEY is constant too: KEY was computed once with UxPlay's lib/playfair.
 */

/** Message 1: version 3, mode 3. */
export const SETUP = Buffer.from('46504c590301010000000004020003bb', 'hex')
/** Message 3, 164 bytes. The payload is arbitrary. */
export const HANDSHAKE = message('46504c59030103000000009803', 164)
export const ENCRYPTED_KEY = message('46504c59010201000000003c', 72)
/** The AES-128 key in ENCRYPTED_KEY, for a receiver that got HANDSHAKE. */
export const KEY = Buffer.from('a48f271b6440e08e02198d0455efecf4', 'hex')

/** A header (`FPLY`, version, type, length), followed by bytes that count up. */
function message(header: string, length: number): Buffer {
  const bytes = Buffer.from(Array.from({ length }, (_, index) => index))
  Buffer.from(header, 'hex').copy(bytes)
  return bytes
}
