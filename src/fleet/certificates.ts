import { X509Certificate } from 'node:crypto'
import { CERTIFICATE_BLOCK, pinOf } from '../../hal/format/certificate.ts'
import type { Member } from './access.ts'
import type { Proof } from './fleet-file.ts'
import { causeIn, type Result } from './outcome.ts'
import { FAILURE, INTERRUPTED, SUCCESS } from './report.ts'
import { eachOf, type RollOutOptions } from './waves.ts'

/**
 * Certificates by which a program that knows no pins knows the devices: those of their authorities, and of the others each
 * its own, once it has shown the one in the fleet file.
 * @param before Such certificates of earlier: there, a device that cannot be reached has its own.
 * @returns them in PEM, and the exit status.
 */
export async function certificatesOf(
  members: readonly Member[],
  before: string,
  options: Pick<RollOutOptions, 'limit' | 'stop' | 'ui'>,
): Promise<readonly [pem: string, status: number]> {
  const { stop, ui } = options
  const found = new Map<Member, string>()
  const earlier = certificatesIn(before)
  const progress = (done: number) => `Asking: ${done} of ${members.length}`
  const outcomes = await eachOf(members, options, progress, async (member): Promise<Result> => {
    const { name, proof } = member.device
    try {
      found.set(member, await member.client().certificates())
    } catch (error) {
      const known = earlier.find(certificate => isOf(certificate, proof))
      if (!known) throw error
      found.set(member, known.toString())
      ui.note(`${name}: ${causeIn(error)}; the certificate that was in the file stays`)
    }
    return { state: 'done' }
  })
  const all = members.flatMap(member => certificatesIn(found.get(member) ?? ''))
  const pem = [...new Set(all.map(String))].join('')
  if (stop.aborted) return [pem, INTERRUPTED]
  return [pem, outcomes.some(({ state }) => state === 'failed') ? FAILURE : SUCCESS]
}

function certificatesIn(pem: string): readonly X509Certificate[] {
  return (pem.match(CERTIFICATE_BLOCK) ?? []).flatMap(text => {
    try {
      return new X509Certificate(text)
    } catch {
      return []
    }
  })
}

function isOf({ publicKey, fingerprint256 }: X509Certificate, proof: Proof): boolean {
  if (proof.kind === 'pin') return pinOf(publicKey) === proof.pin
  return proof.kind === 'fingerprint' && fingerprint256 === proof.fingerprint
}
