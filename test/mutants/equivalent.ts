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
    file: 'hal/files/kernel.ts',
    code: 'const QUIET = { throwIfNoEntry: false } as const',
    mutant: 'false → true',
    why: 'The error is thrown and caught, which is only slower.',
  },
  {
    file: 'hal/files/kernel.ts',
    code: 'const QUIET = { throwIfNoEntry: false } as const',
    mutant: '{ throwIfNoEntry: false } → {}',
    why: 'The error is thrown and caught, which is only slower.',
  },
  {
    file: 'hal/files/replace.ts',
    code: 'const mode = fs.lstat(from)?.mode ?? 0',
    mutant: 'fs.lstat(from)?.mode ?? 0 → fs.lstat(from)?.mode',
    why: 'If nothing is there, the rename fails before the mode is needed.',
  },
  {
    file: 'hal/files/root.ts',
    code: 'if (this.#folders.size === 0) setImmediate(() => this.#folders.clear())',
    mutant: 'this.#folders.size === 0 → true',
    why: 'To clear it several times at the end of the same turn is only slower.',
  },
  {
    file: 'hal/files/watcher.ts',
    code: '} catch {',
    mutant: '{ return undefined } → {}',
    why: 'A function that ends returns undefined; the compiler wants to see it.',
  },
  {
    file: 'hal/files/write.ts',
    code: 'return readFile(fs, at, bytes.length)?.equals(bytes) === true',
    mutant: '?. → .',
    why: 'The error that this throws counts as a difference, too.',
  },
  {
    file: 'hal/files/write.ts',
    code: '} catch {',
    mutant: '{ return false } → {}',
    why: 'Its caller takes undefined for false; the compiler wants a boolean.',
  },
  {
    file: 'hal/transaction/not-reset.ts',
    code: "this.#left = parse(text ?? '')",
    mutant: "text ?? '' → text",
    why: '`JSON.parse` refuses undefined as it refuses an empty text; the compiler does not allow it.',
  },
  {
    file: 'hal/transaction/not-reset.ts',
    code: "this.#left = parse(text ?? '')",
    mutant: "'' → 'mutant'",
    why: 'Any text that is not JSON means that there is no record.',
  },
  {
    file: 'hal/transaction/transaction.ts',
    code: "let at = ''",
    mutant: "'' → 'mutant'",
    why: 'Each step names what it changes before it can fail; the compiler does not know that.',
  },
  {
    file: 'src/auth/authenticator.ts',
    code: 'verifier ??= new JwtVerifier(apiKey)',
    mutant: '??= → =',
    why: 'A new verifier for each token finds the same; it is only slower.',
  },
  {
    file: 'src/auth/credentials.ts',
    code: 'const BASE64 = /^[+/\\w-]+={0,2}$/',
    mutant: '+ → *',
    why: 'A text without characters decodes to none, in which there is no colon.',
  },
  {
    file: 'src/auth/issued-tokens.ts',
    code: "const DIGEST = { EdDSA: null, ES256: 'sha256' } as const",
    mutant: "{ EdDSA: null, ES256: 'sha256' } → {}",
    why: 'If no digest is named, OpenSSL 3 uses SHA-256 for a P-256 key, but no document promises it.',
  },
  {
    file: 'src/auth/issuer.ts',
    code: 'if (!(error instanceof SyntaxError)) throw error',
    mutant: '!(error instanceof SyntaxError) → false',
    why: '`parseJson` throws nothing else, unless it has a bug.',
  },
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
    file: 'src/auth/jwt.ts',
    code: "if (header !== this.#goodHeader && !isOurHeader(parseObject(header))) return 'malformed'",
    mutant: 'header !== this.#goodHeader → true',
    why: 'A header that was good before is good again; to parse it again is only slower.',
  },
  {
    file: 'src/auth/jwt.ts',
    code: 'this.#goodHeader = header',
    mutant: 'this.#goodHeader = header → removed',
    why: 'A header that is not remembered is parsed again, which is only slower.',
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
  {
    file: 'src/events/audience.ts',
    code: '#isAwaited = false',
    mutant: 'false → true',
    why: 'It is read only after a wake, which sets it.',
  },
  {
    file: 'src/events/long-poll.ts',
    code: "if (cursor === 'unknown' || !log.holds(cursor)) return this.#reply(log.latestId, resync.array)",
    mutant: "cursor === 'unknown' → false",
    why: 'No log holds it; the compiler does not know that.',
  },
  {
    file: 'src/events/long-poll.ts',
    code: 'this.#answerer?.answer(new RefusedCredential(why))',
    mutant: '?. → .',
    why: 'Nothing knows a poll before `hold` has set it.',
  },
  {
    file: 'src/events/long-poll.ts',
    code: 'this.#answerer?.answer(withHeaders(this.#options.answers.after(this.#cursor), this.#headers))',
    mutant: '?. → .',
    why: 'Nothing knows a poll before `hold` has set it.',
  },
  {
    file: 'src/events/stream.ts',
    code: "if (this.#cursor === 'unknown' || !log.holds(this.#cursor)) {",
    mutant: "this.#cursor === 'unknown' → false",
    why: 'No log holds it; the compiler does not know that.',
  },
  {
    file: 'src/sessions/engine-client.ts',
    code: "const chunks = answer.setEncoding('utf8')",
    mutant: "'utf8' → ''",
    why: 'Node reads an encoding without a name as UTF-8.',
  },
  {
    file: 'src/sessions/sessions.ts',
    code: "await this.#decide(entry, 'admit', async () => {",
    mutant: "'admit' → ''",
    why: 'Only whether two decisions differ matters.',
  },
  {
    file: 'src/sessions/sessions.ts',
    code: "await this.#decide(entry, 'end', async () => {",
    mutant: "'end' → ''",
    why: 'Only whether two decisions differ matters.',
  },
]
