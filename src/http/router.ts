import { closest } from '../../hal/format/closest.ts'
import { MAX_PATH_PARAMETER } from '../limits.ts'
import { Problem } from '../problem.ts'
import { Operation } from './operation.ts'
import { NO_PARAMETERS, type PathParameters } from './request.ts'
import type { AnyRoute } from './route.ts'

/** The prefix of every route's path. */
export const BASE_PATH = '/api/v1'

export interface Match {
  readonly route: AnyRoute
  readonly operation: Operation
  readonly parameters: PathParameters
}

/** The routes at one path, by method. */
type Methods = ReadonlyMap<string, Match>

interface Template {
  /** The segments of the path; `{name}` is a parameter. */
  readonly segments: readonly string[]
  readonly methods: Methods
}

/**
 * Finds the route for a method and a path. A path without parameters takes one lookup; among the others, a literal segment
 * takes precedence over a parameter.
 */
export class Router {
  readonly #paths = new Map<string, Methods>()
  readonly #templates: Template[] = []
  readonly #operations: Operation[] = []
  #maxSegments = 0

  /** @param base The prefix of every route's path. */
  constructor(routes: readonly AnyRoute[], base = BASE_PATH) {
    this.add(routes, base)
  }

  /** The request counts of each route. */
  get operations(): readonly Operation[] {
    return this.#operations
  }

  /** Adds routes, at paths that have none yet. */
  add(routes: readonly AnyRoute[], base: string): void {
    const paths = new Map<string, Map<string, Match>>()
    for (const route of routes) {
      const path = base + route.path
      const operation = new Operation(path, route.method)
      this.#operations.push(operation)
      const methods = paths.get(path) ?? new Map<string, Match>()
      const match = { route, operation, parameters: NO_PARAMETERS }
      paths.set(path, methods.set(route.method, match))
      if (route.method === 'GET') methods.set('HEAD', match)
    }
    for (const [path, methods] of paths)
      if (path.includes('{')) this.#templates.push({ segments: path.split('/'), methods })
      else this.#paths.set(path, methods)
    this.#templates.sort((a, b) => (shape(a) < shape(b) ? -1 : 1))
    this.#maxSegments = Math.max(0, ...this.#templates.map(template => template.segments.length))
  }

  /** @throws {Problem} 404, or 405 with `Allow`. */
  find(method: string, path: string): Match {
    const methods = this.#paths.get(path)
    if (methods) return matchOf(methods, method)
    const { template, parameters } = this.#matchTemplate(path)
    return { ...matchOf(template.methods, method), parameters }
  }

  /** Returns the methods of a path, as listed in `Allow`. @throws {Problem} 404 */
  allowed(path: string): string {
    return allowed(this.#paths.get(path) ?? this.#matchTemplate(path).template.methods)
  }

  /** Returns the end of a sentence that helps with a wrong path. */
  #hint(path: string): string {
    const meant = closest(path.replace(/\/$/, ''), [...this.#paths.keys()])
    if (meant !== undefined) return `; did you mean ${meant}?`
    const list = `${BASE_PATH}/openapi.json`
    return this.#paths.has(list) ? `. GET ${list} lists them all.` : '.'
  }

  #matchTemplate(path: string): { readonly template: Template; readonly parameters: PathParameters } {
    const segments = path.split('/', this.#maxSegments + 1)
    for (const template of this.#templates) {
      const parameters = matchSegments(template.segments, segments)
      if (parameters) return { template, parameters }
    }
    throw new Problem('not-found', `There is no resource at this path${this.#hint(path)}`)
  }
}

/** @throws {Problem} 405 with `Allow`. */
function matchOf(methods: Methods, method: string): Match {
  const match = methods.get(method)
  if (match) return match
  const allow = allowed(methods)
  throw new Problem('method-not-allowed', `This resource accepts ${allow}.`, { headers: ['Allow', allow] })
}

function allowed(methods: Methods): string {
  return [...methods.keys()].join(', ')
}

/** Returns a sort key for templates: earlier segments count more, and literal segments come first. */
function shape({ segments }: Template): string {
  return segments.map(segment => (isParameter(segment) ? 1 : 0)).join('')
}

function isParameter(segment: string): boolean {
  return segment.startsWith('{')
}

function matchSegments(template: readonly string[], segments: readonly string[]): PathParameters | undefined {
  if (template.length !== segments.length) return undefined
  const parameters = new Map<string, string>()
  for (const [at, expected] of template.entries()) {
    const segment = segments[at] ?? ''
    if (!isParameter(expected)) {
      if (segment !== expected) return undefined
      continue
    }
    const value = decode(segment)
    if (!value) return undefined
    parameters.set(expected.slice(1, -1), value)
  }
  return parameters
}

/** Returns undefined for text that is not percent-encoded UTF-8, or is too long. */
function decode(segment: string): string | undefined {
  if (segment.length > MAX_PATH_PARAMETER) return undefined
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
