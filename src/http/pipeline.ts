import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { isOfSystem, reasonOf } from '../../hal/errors.ts'
import { closest } from '../../hal/format/closest.ts'
import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { insufficientScope, RefusedCredential } from '../auth/challenge.ts'
import { presentedCredential } from '../auth/credentials.ts'
import { MAX_HEADERS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Counts } from '../metrics/counts.ts'
import { Problem, systemProblem } from '../problem.ts'
import { type Client, clientAt } from './address.ts'
import { hasBody, readJson, requireLength, requireMediaType, requireValid } from './body.ts'
import type { ClientWarnings } from './client-warnings.ts'
import { isPreflight, preflightHeaders } from './cors.ts'
import { CLOSE } from './encoder.ts'
import { IncomingBody } from './incoming-body.ts'
import type { Operation } from './operation.ts'
import { problemReply, type Reply, type WholeReply } from './reply.ts'
import { Request } from './request.ts'
import type { BodyRules, Route, StreamRules } from './route.ts'
import type { Router } from './router.ts'
import { checkHost, isRepeated, parseTarget } from './target.ts'

/** The client of a request, and the operation under which the request is counted. */
export interface Asker extends Client {
  operation: Operation
  /** The body, if the handler streams it. */
  incoming: IncomingBody | undefined
}

/** A request whose route is known, with its query. */
interface Asked {
  readonly route: Route
  readonly request: Request
  readonly message: IncomingMessage
  readonly response: ServerResponse
  readonly query: URLSearchParams | undefined
  readonly client: Asker
}

export interface PipelineOptions {
  readonly router: Router
  readonly authenticator: Authenticator
  readonly warnings: ClientWarnings
  readonly log: Log
  /** Whether requests come from the server in front, which names their client. Other clients could claim any address. */
  readonly isFronted: boolean
}

/**
 * Processes a request from its head to the reply: limits, route (404, 405), credential (401), grant (403), preconditions
 * (412), media type (415), body (400, 411, 413, 422), handler. If the route streams its body, the handler runs before the
 * body is read.
 */
export class Pipeline {
  readonly #options: PipelineOptions
  readonly refusals = new Counts(['reason'])

  constructor(options: PipelineOptions) {
    this.#options = options
  }

  /** Never throws or rejects: errors become replies, too. */
  answer(message: IncomingMessage, response: ServerResponse, client: Asker): Reply | Promise<Reply> {
    const address = this.#options.isFronted ? addressIn(message, client.address) : client.address
    try {
      const reply = this.#process(message, response, client, address)
      return reply instanceof Promise ? this.#settle(reply, address) : reply
    } catch (error) {
      return this.#refuse(error, address)
    }
  }

  async #settle(reply: Promise<Reply>, address: string): Promise<Reply> {
    try {
      return await reply
    } catch (error) {
      return this.#refuse(error, address)
    }
  }

  #process(message: IncomingMessage, response: ServerResponse, client: Asker, address: string): Reply | Promise<Reply> {
    const { router, authenticator } = this.#options
    checkHead(message)
    const { path, query } = parseTarget(message.url ?? '/')
    if (isPreflight(message)) return { status: 204, headers: preflightHeaders(router.allowed(path)) }
    const { route, operation, parameters } = router.find(message.method ?? '', path)
    client.operation = operation
    const request = new Request(message, query, address, client.network, parameters)
    if (route.needs === 'nothing') {
      if (!route.body) {
        refuseBody(message)
        return route.handle(request)
      }
      return this.#readBody(route.body, request, message, response).then(() => route.handle(request))
    }

    const presented = presentedCredential(authorizationOf(message), query?.getAll('apiKey'))
    // Limits on verifying issuers' signatures count by the same address as warnings: with a server in front, all clients
    // have the address of one connection, and a flood from one of them would lock out the others.
    const credential = authenticator.authenticate(
      presented,
      address === client.address ? client.network : clientAt(address).network,
    )
    const asked = { route, request, message, response, query, client }
    if (credential instanceof Promise) return this.#handleLater(asked, credential)
    return this.#handle(asked, credential)
  }

  /**
   * Handles each such request in its own turn of the event loop: a token is verified once for many concurrent requests, and
   * a place that one of them finds must be taken before the next one looks for it.
   */
  async #handleLater(asked: Asked, verifying: Promise<Credential>): Promise<Reply> {
    const credential = await verifying
    await new Promise(resolve => setImmediate(resolve))
    this.#options.authenticator.recheck(credential)
    return this.#handle(asked, credential)
  }

  /** Processes the rest of a request whose credential is valid. */
  #handle({ route, request, message, response, query, client }: Asked, credential: Credential): Reply | Promise<Reply> {
    const { authenticator } = this.#options
    requireGrant(route, credential)
    if (query && message.method !== 'GET' && message.method !== 'HEAD') requireKnown(route, query)
    if (route.body && 'maxBytes' in route.body) {
      const recheck = () => authenticator.recheck(credential)
      client.incoming = takeBody(route.body, request, message, response, recheck)
      request.incoming = client.incoming
      return route.handle(request, credential)
    }
    if (route.body)
      return this.#readBody(route.body, request, message, response, credential).then(() =>
        route.handle(request, credential),
      )
    refuseBody(message)
    return route.handle(request, credential)
  }

  async #readBody(
    body: BodyRules,
    request: Request,
    message: IncomingMessage,
    response: ServerResponse,
    credential?: Credential,
  ): Promise<void> {
    body.precondition?.(request)
    if (body.isOptional && !hasBody(message)) return
    requireMediaType(message, body.accepts)
    request.body = await readJson(message, response)
    // The body may have taken long to arrive: check that the credential still holds.
    if (credential) this.#options.authenticator.recheck(credential)
    requireValid(request.body, body)
  }

  #refuse(error: unknown, address: string): WholeReply {
    const { log, warnings } = this.#options
    if (!(error instanceof Problem)) {
      log('error', `answered with 500: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
      // That a system refuses to be read or written is no secret, and somebody must learn of it.
      if (isOfSystem(error)) return problemReply(systemProblem(`The system refused: ${reasonOf(error)}.`, error))
      return problemReply(new Problem('internal', 'The device failed to answer; its log has the reason.'))
    }
    if (error instanceof RefusedCredential) {
      this.refusals.add([error.refusal])
      warnings.warn(clientAt(address).network, `${address}: refused a credential: ${error.refusal}`)
    } else if (error.kind === 'too-many-streams' || error.kind === 'unavailable')
      warnings.warn(clientAt(address).network, `${address}: answered with ${error.status}: ${error.message}`)
    // A 501 is for a mistake of the client, and anyone could fill the log with it.
    else if (error.status >= 500 && error.kind !== 'not-implemented')
      log('error', `answered with ${error.status}: ${error.message}`)
    return problemReply(error)
  }
}

/** @throws {Problem} before any of the body is read. */
function takeBody(
  rules: StreamRules,
  request: Request,
  message: IncomingMessage,
  response: ServerResponse,
  recheck: () => void,
): IncomingBody {
  rules.precondition?.(request)
  requireMediaType(message, rules.accepts, 'uncompressed')
  requireLength(message, rules.maxBytes)
  return new IncomingBody(message, response, rules, recheck)
}

/** Returns the address for log lines only: a program on the device itself can claim any address. */
function addressIn(message: IncomingMessage, peer: string): string {
  const address = message.headers['x-real-ip']
  return typeof address === 'string' && isIP(address) !== 0 ? address : peer
}

/** @throws {Problem} 431, 400, 417 or 501 for a head that no route could answer. */
function checkHead(message: IncomingMessage): void {
  // Each header takes memory that Node's byte count does not include.
  if (message.rawHeaders.length > 2 * MAX_HEADERS)
    throw new Problem('head-too-large', `A request must not have more than ${MAX_HEADERS} headers.`)
  checkHost(message)
  const { expect, 'transfer-encoding': coding } = message.headers
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    throw new Problem('not-implemented', 'The only supported transfer coding is chunked.')
  if (expect !== undefined && message.httpVersion !== '1.0' && expect.toLowerCase() !== '100-continue')
    throw new Problem('expectation-failed', 'The only supported expectation is 100-continue.')
}

/** Refuses a body that would have no effect, because the client may think that it has. @throws {Problem} 422 */
function refuseBody(message: IncomingMessage): void {
  if (hasBody(message)) throw new Problem('invalid-body', 'This request takes no body.', { headers: CLOSE })
}

/** @throws {Problem} 400 if the header is repeated. */
function authorizationOf(message: IncomingMessage): string | undefined {
  const { authorization } = message.headers
  if (authorization !== undefined && isRepeated(message, 'authorization'))
    throw new Problem('bad-request', 'The Authorization header is repeated. Send it once.')
  return authorization
}

/**
 * Refuses unknown query parameters: a misspelled `confirmWithin` must not make a change permanent that was meant to be on
 * trial. The detail does not quote the name, because it may be a credential in the wrong place.
 * @throws {Problem} 400
 */
function requireKnown({ docs }: Route, query: URLSearchParams): void {
  const parameters = (docs.parameters ?? []).filter(parameter => parameter.in === 'query')
  const known = ['apiKey', ...parameters.map(({ name }) => name)]
  for (const name of query.keys()) {
    if (known.includes(name)) continue
    const meant = closest(name, known)
    const hint = meant === undefined ? `; known are ${known.join(', ')}.` : `; did you mean ${meant}?`
    throw new Problem('bad-request', `The query has an unknown parameter${hint}`)
  }
}

/** @throws {Problem} 403 */
function requireGrant({ needs }: Route, { isApiKey, grants }: Credential): void {
  if (needs === 'credential') return
  if (needs === 'api-key') {
    if (!isApiKey) throw insufficientScope('This needs the API key itself; a token cannot do it.', [])
  } else if (typeof needs === 'string') {
    if (!grants.has(needs)) throw insufficientScope(`This needs the grant ${needs}.`, [needs])
  } else if (!needs.some(grant => grants.has(grant)))
    throw insufficientScope(`This needs one of the grants ${needs.join(', ')}.`, needs)
}
