import { isNoSpace } from '../hal/errors.ts'

/** The kinds of problems: the last part of the `type`, with the status and the title. */
const KINDS = {
  'bad-request': [400, 'Bad request'],
  unauthorized: [401, 'Authentication required'],
  forbidden: [403, 'Permission denied'],
  'not-found': [404, 'Not found'],
  'method-not-allowed': [405, 'Method not allowed'],
  'request-timeout': [408, 'Request timeout'],
  conflict: [409, 'Conflict'],
  'in-the-way': [409, 'Another device is mirroring'],
  'bundle-older': [409, 'The bundle is older than the version that runs'],
  'length-required': [411, 'Length required'],
  'precondition-failed': [412, 'Precondition failed'],
  'body-too-large': [413, 'Body too large'],
  'unsupported-media-type': [415, 'Unsupported media type'],
  'expectation-failed': [417, 'Unsupported expectation'],
  'invalid-body': [422, 'Invalid body'],
  'invalid-configuration': [422, 'Invalid configuration'],
  'bundle-signature': [422, 'The bundle is not signed for this device'],
  'bundle-compatible': [422, 'The bundle is for another board'],
  'bundle-damaged': [422, 'The bundle is damaged'],
  'bundle-too-old': [422, 'The bundle is too old for this device'],
  'precondition-required': [428, 'Precondition required'],
  'too-many-streams': [429, 'Too many streams from this address'],
  'head-too-large': [431, 'Request head too large'],
  internal: [500, 'Internal error'],
  'system-refused': [500, 'The system refused'],
  'engine-refused': [500, 'The mirroring program refused the decision'],
  'not-implemented': [501, 'Not implemented'],
  'download-failed': [502, 'The download failed'],
  unavailable: [503, 'Too busy'],
  'engine-timeout': [504, 'The mirroring program has not answered in time'],
  'no-space': [507, 'No space left on the device'],
} as const satisfies Record<string, readonly [status: number, title: string]>

export type ProblemKind = keyof typeof KINDS

/** A refused value: `pointer` is an RFC 6901 pointer into the body, `detail` says what would be accepted. */
export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

/** An error as sent to clients (RFC 9457). Its texts are public: they contain no credential, no path and no stack. */
export class Problem extends Error {
  readonly kind: ProblemKind
  readonly errors: readonly FieldError[] | undefined
  /** Alternating header names and values. */
  readonly headers: readonly string[]
  /** Additional members of the body (RFC 9457 §3.2). */
  readonly members: Readonly<Record<string, string>> | undefined

  constructor(
    kind: ProblemKind,
    detail: string,
    more: {
      errors?: readonly FieldError[]
      headers?: readonly string[]
      members?: Readonly<Record<string, string>>
      cause?: unknown
    } = {},
  ) {
    super(detail, { cause: more.cause })
    this.kind = kind
    this.errors = more.errors
    this.headers = more.headers ?? []
    this.members = more.members
  }

  get type(): string {
    return `urn:receiverd:problem:${this.kind}`
  }

  get status(): number {
    return KINDS[this.kind][0]
  }

  body(): Buffer {
    const [status, title] = KINDS[this.kind]
    return Buffer.from(
      JSON.stringify({
        type: this.type,
        title,
        status,
        detail: this.message,
        errors: this.errors,
        ...this.members,
      }),
    )
  }
}

/** Returns the problem for a refusal of the system: 507 if no space is left, and 500 otherwise. */
export function systemProblem(detail: string, cause: unknown): Problem {
  return new Problem(isNoSpace(cause) ? 'no-space' : 'system-refused', detail, { cause })
}
