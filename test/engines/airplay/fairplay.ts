/**
 * FairPlay as far as a test needs it: the messages are always the same, and so is the key that a receiver reads out of
 * ENCRYPTED_KEY. It was computed once, by the code for that in UxPlay (lib/playfair).
 */

/** Message 1: the protocol's version 3, its first mode but three. */
export const SETUP = Buffer.from('46504c590301010000000004020003bb', 'hex')
/** Message 3, of 164 bytes: what comes after its header may be anything. */
export const HANDSHAKE = message('46504c59030103000000009803', 164)
export const ENCRYPTED_KEY = message('46504c59010201000000003c', 72)
/** The key of AES-128 in it, once a receiver has been sent HANDSHAKE. */
export const KEY = Buffer.from('a48f271b6440e08e02198d0455efecf4', 'hex')

/** A header (`FPLY`, version, type, length), and bytes that count on to the end. */
function message(header: string, length: number): Buffer {
  const bytes = Buffer.from(Array.from({ length }, (_, index) => index))
  Buffer.from(header, 'hex').copy(bytes)
  return bytes
}
