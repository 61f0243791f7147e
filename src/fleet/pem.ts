import { X509Certificate } from 'node:crypto'
import { CERTIFICATE_BLOCK } from '../../hal/format/certificate.ts'

/** The certificates in a text of PEM (RFC 7468), except those that cannot be read. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  return (pem.match(CERTIFICATE_BLOCK) ?? []).flatMap(text => {
    try {
      return new X509Certificate(text)
    } catch {
      return []
    }
  })
}
