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
  /** Below the base path. `{name}` stands for one segment. */
  readonly path: string
  readonly needs: 'nothing'
  readonly body?: BodyRules
  readonly handle: (request: Request) => Reply
  readonly docs: RouteDocs
}

/** One operation of the API: the grant that it needs, its handler, and its part of the OpenAPI document. */
export interface Route {
  readonly method: Method
  readonly path: string
  /** A grant, or several of which any one suffices; `api-key` for what no token may do; `credential` if any valid one will do. */
  readonly needs: Grant | readonly Grant[] | 'api-key' | 'credential'
  /** Absent for a route that takes no body: a request with one is refused. */
  readonly body?: BodyRules | StreamRules
  readonly handle: (request: Request, credential: Credential) => Reply | Promise<Reply>
  readonly docs: RouteDocs
}

export interface BodyRules {
  /** Media types, the preferred one first. */
  readonly accepts: readonly string[]
  /** Enforced before the handler is called. */
  readonly schema: TSchema
  /** Takes the place of `schema` in the OpenAPI document where the handler checks more than that. */
  readonly documented?: TSchema
  /** The kind of the 422 for a body that does not fit; by default `invalid-body`. */
  readonly invalid?: ProblemKind
  /** Whether the body may be left out, and with it its Content-Type. */
  readonly isOptional?: boolean
  /** Checked before the body is read (RFC 9110 §13.2.2). Throws if a precondition fails. */
  readonly precondition?: (request: Request) => void
}

/** A body that the handler takes as it arrives, from `Request.incoming`. The time for a whole request does not apply. */
export interface StreamRules {
  readonly accepts: readonly string[]
  /** A larger one is refused before any of it is read. */
  readonly maxBytes: number
  /** Milliseconds without a byte, and in all. */
  readonly stallMs: number
  readonly totalMs: number
  readonly precondition?: (request: Request) => void
}

/** The same route for a device that may not have what it is about: `requirePresent` throws then, before a body is read. */
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
  /** Unique among all routes: generated clients name a function after it. */
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  /** Marks an operation on the device. The page has a button for each. */
  readonly operation?: OperationDocs
  /** Path parameters that are not described here are added. */
  readonly parameters?: readonly ParameterDocs[]
  /** Answers by status. The ones that every route can give (401, 403, …) are added. */
  readonly answers: Readonly<Record<number, AnswerDocs>>
}

/** `x-operation` in the OpenAPI document. The summary is the name of the button, and the description is shown beside it. */
export interface OperationDocs {
  /** Whether people are asked for a confirmation first. */
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
  /** By media type; absent for an answer without a body. */
  readonly content?: Readonly<Record<string, TSchema>>
  /** Headers that the answer always has. */
  readonly headers?: readonly string[]
  /** Headers that it may have. */
  readonly sometimes?: readonly string[]
}
