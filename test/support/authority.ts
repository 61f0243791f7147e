/** The certificate authority of an owner, made with openssl(1). */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from './folder.ts'

export interface Signing {
  /** Lines of openssl's configuration; by default the extensions of the request are copied. */
  readonly extensions?: string
  readonly days?: number
}

export class Authority {
  /** The certificates of this authority and of those above it, its own first, in PEM. */
  readonly chain: string
  readonly #folder: string

  constructor(folder: string, chain: string) {
    this.#folder = folder
    this.chain = chain
  }

  /** The certificate of the root, as clients trust it. */
  get rootPath(): string {
    return join(this.#folder, 'root.pem')
  }

  /** Signs a request in DER. @returns a certificate in PEM, without its issuers. */
  sign(request: Uint8Array, { extensions, days = 30 }: Signing = {}): string {
    writeFileSync(join(this.#folder, 'request.der'), request)
    writeFileSync(join(this.#folder, 'extensions'), extensions ?? '')
    const copied = extensions === undefined ? ['-copy_extensions', 'copy'] : ['-extfile', 'extensions']
    const by = ['-CA', 'issuing.pem', '-CAkey', 'issuing.key', '-CAcreateserial', '-days', `${days}`]
    return openssl(this.#folder, 'x509', '-req', '-inform', 'DER', '-in', 'request.der', ...by, ...copied)
  }
}

/** A root with an issuing authority below it. */
export function newAuthority(t: Test): Authority {
  const folder = temporaryFolder(t)
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl(
    folder,
    'req',
    '-x509',
    ...key,
    '-subj',
    '/CN=Root',
    '-keyout',
    'root.key',
    '-out',
    'root.pem',
    '-days',
    '400',
  )
  openssl(folder, 'req', ...key, '-subj', '/CN=Issuing', '-keyout', 'issuing.key', '-out', 'issuing.csr')
  writeFileSync(join(folder, 'ca'), 'basicConstraints=critical,CA:true\nkeyUsage=keyCertSign\n')
  const by = ['-CA', 'root.pem', '-CAkey', 'root.key', '-CAcreateserial', '-days', '300', '-extfile', 'ca']
  openssl(folder, 'x509', '-req', '-in', 'issuing.csr', ...by, '-out', 'issuing.pem')
  return new Authority(folder, readFileSync(join(folder, 'issuing.pem'), 'utf8'))
}

function openssl(folder: string, ...args: string[]): string {
  return execFileSync('openssl', args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
}
