import type { TSchema } from 'typebox/type'
import type { Credential } from '../auth/authenticator.ts'
import type { Grant } from '../auth/grants.ts'
import type { ProblemKind } from '../problem.ts'
import type { Reply } from './reply.ts'
import type { Request } from './request.ts'

export type Method = 'GET' | 'PATCH' | 'POST' | 'PUT' | 'DELETE'

/** An operation that needs no credential. */
export interface OpenRoute {
  readonly method: Method
  /** The path below the base path. `{name}` stands for one segment. */
  readonly path: string
  readonly needs: 'nothing'
  readonly body?: BodyRules
  readonly handle: (request: Request) => Reply
  readonly docs: RouteDocs
}

/** An operation of the API: the grant that it needs, its handler, and its part of the OpenAPI document. */
export interface Route {
  readonly method: Method
  readonly path: string
  /** A grant, or several of which one suffices; `api-key` for what no token may do; `credential` for any valid credential. */
  readonly needs: Grant | readonly Grant[] | 'api-key' | 'credential'
  /** Absent for a route that takes no body: a request that has one is refused. */
  readonly body?: BodyRules | StreamRules
  readonly handle: (request: Request, credential: Credential) => Reply | Promise<Reply>
  readonly docs: RouteDocs
}

export interface BodyRules {
  /** Media types, the preferred one first. */
  readonly accepts: readonly string[]
  /** Enforced before the handler is called. */
  readonly schema: TSchema
  /** Replaces `schema` in the OpenAPI document if the handler checks more than `schema`. */
  readonly documented?: TSchema
  /** The kind of the 422 for an invalid body. Defaults to `invalid-body`. */
  readonly invalid?: ProblemKind
  /** Whether the request may omit the body and its Content-Type. */
  readonly isOptional?: boolean
  /** Checked before the body is read (RFC 9110 §13.2.2). Throws if a precondition fails. */
  readonly precondition?: (request: Request) => void
}

/** Rules for a body that the handler streams from `Request.incoming`. The time limit for a whole request does not apply. */
export interface StreamRules {
  readonly accepts: readonly string[]
  /** A larger body is refused before any of it is read. */
  readonly maxBytes: number
  /** Maximum milliseconds without a byte, and in total. */
  readonly stallMs: number
  readonly totalMs: number
  readonly precondition?: (request: Request) => void
}

/** Wraps a route that not every device has: on one without it, `requirePresent` throws before the body is read. */
export function onlyIf(requirePresent: () => void, route: Route): Route {
  const { body, handle } = route
  const precondition = (request: Request) => {
    requirePresent()
    body?.precondition?.(request)
  }
  return {
    ...route,
    ...(body && { body: { ...body, precondition } }),
    handle: (request, credential) => {
      requirePresent()
      return handle(request, credential)
    },
  }
}

export type AnyRoute = Route | OpenRoute

export interface RouteDocs {
  /** Unique among all routes: generated clients derive function names from it. */
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  /** Present for an operation on the device. The page has a button for each. */
  readonly operation?: OperationDocs
  /** Path parameters that are not listed here are added. */
  readonly parameters?: readonly ParameterDocs[]
  /** Responses by status. Those that every route can give (401, 403, …) are added. */
  readonly answers: Readonly<Record<number, AnswerDocs>>
}

/** `x-operation` in the OpenAPI document. The summary is the label of the button; the description is shown next to it. */
export interface OperationDocs {
  /** Whether people are asked to confirm first. */
  readonly confirm: boolean
  /** Whether they must type the name of the device to confirm. */
  readonly destructive: boolean
}

export interface ParameterDocs {
  readonly name: string
  readonly in: 'query' | 'header' | 'path'
  readonly description: string
  readonly schema: TSchema
}

export interface AnswerDocs {
  readonly description: string
  /** Schemas by media type; absent for a response without a body. */
  readonly content?: Readonly<Record<string, TSchema>>
  /** Headers that the response always has. */
  readonly headers?: readonly string[]
  /** Headers that the response may have. */
  readonly sometimes?: readonly string[]
}
