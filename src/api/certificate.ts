import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import { HOST_PATTERN, MAX_HOST, whyNoHost } from '../../hal/format/host.ts'
import { RefusedCertificate } from '../../hal/os/certificate.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Request } from '../http/request.ts'
import { type AnswerDocs, onlyIf, type Route } from '../http/route.ts'
import { MAX_BODY_BYTES, MAX_REQUESTED_NAMES, MAX_WAITING_CERTIFICATES, REQUEST_TIMEOUT_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import type { Tls } from '../presence/tls.ts'
import { Problem, systemProblem } from '../problem.ts'
import { refusal } from '../validate.ts'
import { callerOf } from './caller.ts'
import { Turns } from './turns.ts'

export interface CertificateRoutesOptions {
  /** The TLS server in front of the API; undefined if there is none. */
  readonly tls: Tls | undefined
  readonly authenticator: Authenticator
  readonly log: Log
}

const PATH = '/certificate'
const PKCS10 = 'application/pkcs10'
/** RFC 8555 §9.1 */
const PEM_CHAIN = 'application/pem-certificate-chain'

const RequestSchema = Type.Object(
  {
    names: Type.Optional(
      Type.Array(Type.String({ description: 'Host name or IP address.', maxLength: MAX_HOST, pattern: HOST_PATTERN }), {
        minItems: 1,
        maxItems: MAX_REQUESTED_NAMES,
        description:
          'The names for the certificate, the common name first. Defaults to all names of the device: its host name, ' +
          'NAME.local, and its addresses, which public authorities refuse.',
      }),
    ),
  },
  { $id: 'CertificateRequest', additionalProperties: false },
)

const NO_TLS: AnswerDocs = { description: 'This device does not serve TLS.' }
const BUSY: AnswerDocs = { description: 'Too many of these requests are in progress.', headers: ['Retry-After'] }

/** Routes for the TLS certificate of the device: issued by an authority of its owner, or made by the device itself. */
export function certificateRoutes({ tls, authenticator, log }: CertificateRoutesOptions): readonly Route[] {
  const present = (): Tls => {
    if (tls) return tls
    throw new Problem('conflict', 'This device does not answer by TLS, so it has no certificate.')
  }
  const turns = new Turns(
    MAX_WAITING_CERTIFICATES,
    authenticator,
    'Too many requests about the certificate are waiting.',
  )
  const routes: readonly Route[] = [
    {
      method: 'POST',
      path: `${PATH}/request`,
      needs: 'admin:w',
      body: { accepts: ['application/json'], schema: RequestSchema, isOptional: true },
      handle: async ({ body }, credential) => {
        const { names } = (body ?? {}) as Type.Static<typeof RequestSchema>
        requireHosts(names ?? [])
        const request = await turns.run(credential, () =>
          present().request(names).catch(refused('No request was made')),
        )
        return { status: 200, headers: ['Content-Type', PKCS10], body: request }
      },
      docs: {
        operationId: 'requestCertificate',
        summary: 'Make a certificate signing request',
        description:
          'For the key of this device, which never leaves it. An authority issues a certificate from the request; install it ' +
          'with `PUT`. Nothing changes on the device, and it does not keep the request.',
        answers: {
          200: {
            description: 'The request: PKCS #10 in DER.',
            content: { [PKCS10]: Type.String({ format: 'binary' }) },
          },
          409: NO_TLS,
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'A name was rejected; `errors` says which, and what would be accepted.' },
          500: { description: 'The key of the device cannot be used, or browsers would refuse it.' },
          503: BUSY,
        },
      },
    },
    {
      method: 'PUT',
      path: PATH,
      needs: 'admin:w',
      body: {
        accepts: [PEM_CHAIN],
        maxBytes: MAX_BODY_BYTES,
        stallMs: REQUEST_TIMEOUT_MS,
        totalMs: REQUEST_TIMEOUT_MS,
      },
      handle: async (request, credential) => {
        const chain = await textOf(request)
        await turns.run(credential, () => present().install(chain).catch(refused('The certificate was not taken')))
        log('notice', `${callerOf(request, credential)} replaced the certificate of this device`)
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'putCertificate',
        summary: 'Serve a certificate from an authority',
        description:
          'A PEM chain: the certificate for the key of this device, then each issuer in turn. When the response arrives, the ' +
          'chain is durable and the TLS server has loaded it. The device does not renew it; `GET /status` says when it expires.',
        answers: {
          204: { description: 'The certificate is in force. New connections get it within seconds.' },
          408: { description: 'The body did not arrive in time.' },
          409: NO_TLS,
          411: { description: '`Content-Length` is missing.' },
          413: { description: 'The body is too large.' },
          415: { description: `Not \`${PEM_CHAIN}\`.`, headers: ['Accept'] },
          422: {
            description:
              'The certificate is not for the key of this device, has expired, has no subjectAltName, includes a private key, or ' +
              'cannot be used for TLS or by browsers; `errors` says which, and what would be accepted.',
          },
          500: { description: 'The system or the TLS server refused the certificate; nothing has changed.' },
          503: BUSY,
          507: { description: 'No space left on the device; nothing has changed.' },
        },
      },
    },
    {
      method: 'DELETE',
      path: PATH,
      needs: 'admin:w',
      handle: async (request, credential) => {
        const isOther = await turns.run(credential, () =>
          present().restoreOwn().catch(refused('The certificate was not replaced')),
        )
        if (isOther) log('notice', `${callerOf(request, credential)} removed the certificate of the owner`)
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'deleteCertificate',
        summary: 'Return to a certificate made by the device',
        description:
          'The key and its pin stay the same, unless the device does not make keys of that kind: then it makes a new key.',
        answers: {
          204: { description: 'The device serves a certificate that it made.' },
          409: NO_TLS,
          500: { description: 'The system or the TLS server refused the change; nothing has changed.' },
          503: BUSY,
          507: { description: 'No space left on the device; nothing has changed.' },
        },
      },
    },
  ]
  return routes.map(route => onlyIf(() => void present(), route))
}

/** @throws {Problem} 422 */
function requireHosts(names: readonly string[]): void {
  const errors = names.flatMap((name, at) => {
    const detail = names.indexOf(name) < at ? 'duplicate' : whyNoHost(name)
    return detail === undefined ? [] : [{ pointer: `/names/${at}`, detail }]
  })
  if (errors.length > 0) throw refusal('invalid-body', errors)
}

/** Returns the body as text, decoded as Latin-1: PEM is ASCII, and the parser rejects anything else. */
async function textOf({ incoming }: Request): Promise<string> {
  if (!incoming) throw new Error('the route expects a streamed body')
  const chunks: Buffer[] = []
  // Copied, because a chunk is only valid until the next one is read.
  for await (const chunk of incoming.chunks()) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString('latin1')
}

/** @param what The clause that begins the detail. */
function refused(what: string): (error: unknown) => never {
  return error => {
    if (error instanceof Problem) throw error
    if (error instanceof RefusedCertificate) throw refusal('invalid-body', [{ pointer: '', detail: error.message }])
    throw systemProblem(`${what}: ${reasonOf(error)}.`, error)
  }
}
