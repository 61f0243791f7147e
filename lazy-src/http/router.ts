import type { TSchema } from 'typebox/type'
import type { Credential } from '../auth/authenticator.ts'
import type { Grant } from '../auth/grants.ts'
import { Problem } from '../problem.ts'
import type { Reply } from './reply.ts'
import type { Request } from './request.ts'

export type Method = 'GET' | 'PATCH' | 'POST'

/** An operation that asks for no credential. */
export interface OpenRoute {
  readonly method: Method
  readonly path: string
  readonly needs: 'nothing'
  readonly handle: (request: Request) => Reply
  readonly docs: RouteDocs
}

/** One operation of the API: what it takes to be let in, what it does, and what the OpenAPI document says of it. */
export interface Route {
  readonly method: Method
  readonly path: string
  /** The grant it needs; `api-key` for what no token may do. */
  readonly needs: Grant | 'api-key'
  /** For a route that takes a body. */
  readonly body?: {
    /** Media types, the preferred one first. */
    readonly accepts: readonly string[]
    readonly schema: TSchema
    /** Checked before the body is read (RFC 9110 §13.2.2): throws where a precondition fails. */
    readonly precondition: (request: Request) => void
  }
  readonly handle: (request: Request, credential: Credential) => Reply | Promise<Reply>
  readonly docs: RouteDocs
}

export type AnyRoute = Route | OpenRoute

export interface RouteDocs {
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly ParameterDocs[]
  /** Answers by status. Those that every route can give (401, 403, …) are added to them. */
  readonly answers: Readonly<Record<number, AnswerDocs>>
}

export interface ParameterDocs {
  readonly name: string
  readonly in: 'query' | 'header'
  readonly description: string
  readonly schema: TSchema
}

export interface AnswerDocs {
  readonly description: string
  /** By media type; none for an answer without a body. */
  readonly content?: Readonly<Record<string, TSchema>>
  readonly headers?: readonly string[]
  /** Headers that it has in some cases. */
  readonly sometimes?: readonly string[]
}

/** Finds the route of a method and a path. */
export class Router {
  readonly #paths = new Map<string, Map<string, AnyRoute>>()

  constructor(routes: readonly AnyRoute[]) {
    for (const route of routes) {
      const methods = this.#paths.get(route.path) ?? new Map<string, AnyRoute>()
      this.#paths.set(route.path, methods.set(route.method, route))
      if (route.method === 'GET') methods.set('HEAD', route)
    }
  }

  /** @throws {Problem} 404, or 405 with `Allow`. */
  find(method: string, path: string): AnyRoute {
    const route = this.#methods(path).get(method)
    if (route) return route
    const allow = this.allowed(path)
    throw new Problem('method-not-allowed', `This resource takes ${allow}.`, {
      headers: ['Allow', allow],
    })
  }

  /** The methods of a path, as `Allow` has them. @throws {Problem} 404 */
  allowed(path: string): string {
    return [...this.#methods(path).keys()].join(', ')
  }

  #methods(path: string): Map<string, AnyRoute> {
    const methods = this.#paths.get(path)
    if (!methods) throw new Problem('not-found', 'There is nothing at this path; the API begins at /api/v1.')
    return methods
  }
}
