/** Mutants that no test can kill, each with the reason. `make mutants` fails if one of them is no mutant any more. */

export interface Equivalent {
  readonly file: string
  /** The line as it is in the source, without the space around it. */
  readonly code: string
  /** As `make mutants` prints it. */
  readonly mutant: string
  readonly why: string
}

export const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'src/auth/issuer.ts',
    code: 'const grants = new Set(roles.flatMap(role => [...(grantsOf(role) ?? [])]))',
    mutant: "[] → ['mutant']",
    why: 'The schema accepts only roles that have grants.',
  },
  {
    file: 'src/auth/issuer.ts',
    code: 'const grants = new Set(roles.flatMap(role => [...(grantsOf(role) ?? [])]))',
    mutant: 'grantsOf(role) ?? [] → grantsOf(role)',
    why: 'The schema accepts only roles that have grants.',
  },
  {
    file: 'src/auth/issuer.ts',
    code: 'const PEM = /^\\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\\s]+)-----END PUBLIC KEY-----\\s*$/',
    mutant: '+ → *',
    why: 'OpenSSL does not take nothing for a key either.',
  },
  {
    file: 'src/auth/issuers.ts',
    code: 'const interrupted = names.matchAll(/\\.([a-z0-9-]+\\.json)\\.receiverd-/g)',
    mutant: '+ → *',
    why: 'No write leaves a file without a name behind.',
  },
  {
    file: 'src/auth/key-file.ts',
    code: 'return (await formerKeys(state)).every(line => key !== undefined && isHashOf(key, line))',
    mutant: 'key !== undefined → true',
    why: 'No line has the hash of undefined.',
  },
  {
    file: 'src/auth/key-file.ts',
    code: "const [salt = ''] = line.split(' ')",
    mutant: "'' → 'mutant'",
    why: 'A text has at least one part; the compiler does not know that.',
  },
]
