const KINDS = {
  'bad-request': [400, 'Bad request'],
  unauthorized: [401, 'Credential required'],
  forbidden: [403, 'Not granted'],
  'not-found': [404, 'No such resource'],
  'method-not-allowed': [405, 'Method not allowed'],
  'request-timeout': [408, 'Request took too long'],
  conflict: [409, 'Conflict'],
  'precondition-failed': [412, 'Changed in the meantime'],
  'body-too-large': [413, 'Body too large'],
  'unsupported-media-type': [415, 'Media type not supported'],
  'expectation-failed': [417, 'Expectation not supported'],
  'invalid-configuration': [422, 'Configuration refused'],
  'too-many-streams': [429, 'Too many streams from this address'],
  'head-too-large': [431, 'Request head too large'],
  internal: [500, 'Internal error'],
  'system-refused': [500, 'The system refused the change'],
  unavailable: [503, 'No capacity left'],
  'no-space': [507, 'No space left on the device'],
} as const satisfies Record<string, readonly [status: number, title: string]>

export type ProblemKind = keyof typeof KINDS

/** One refused value: `pointer` is an RFC 6901 pointer into the body, `detail` says what would be accepted. */
export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

/** An answer that is an error, by RFC 9457. Its texts go to the client: no credential, no path, no stack. */
export class Problem extends Error {
  readonly kind: ProblemKind
  readonly errors: readonly FieldError[] | undefined
  /** Header names and values in turn. */
  readonly headers: readonly string[]

  constructor(
    kind: ProblemKind,
    detail: string,
    more: {
      errors?: readonly FieldError[]
      headers?: readonly string[]
      cause?: unknown
    } = {},
  ) {
    super(detail, { cause: more.cause })
    this.kind = kind
    this.errors = more.errors
    this.headers = more.headers ?? []
  }

  get status(): number {
    return KINDS[this.kind][0]
  }

  body(): Buffer {
    const [status, title] = KINDS[this.kind]
    const type = `urn:receiverd:problem:${this.kind}`
    return Buffer.from(
      JSON.stringify({
        type,
        title,
        status,
        detail: this.message,
        errors: this.errors,
      }),
    )
  }
}
