import { isObject, type Json, type JsonObject } from './json.ts'

/** The part of a JSON Schema that the page uses. */
export interface Schema {
  readonly type?: string
  readonly format?: string
  readonly enum?: readonly Json[]
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly readOnly?: boolean
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  /** It is shown only while a sibling has this value. */
  readonly 'x-only-with'?: JsonObject
  /** Where it is empty, it begins with what the device proposes when a sibling is given this value. */
  readonly 'x-propose-with'?: JsonObject
  /** The setting whose value stands for an empty one. */
  readonly 'x-empty-means'?: string
  /** Hours and minutes, such as 02:00, or nothing. */
  readonly 'x-time-of-day'?: boolean
  /** It tells one device from another. */
  readonly 'x-identity'?: boolean
  /** Seconds within which a change of it must be confirmed: it can lock its maker out. */
  readonly 'x-confirm-within'?: number
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  /** Grants, one of which is needed, by the scheme of the credential. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly 'x-operation'?: { readonly confirm: boolean; readonly destructive: boolean }
  readonly parameters?: readonly { readonly name: string; readonly description?: string; readonly schema?: Schema }[]
}

/** An operation that somebody can start on the device. */
export interface DeviceOperation {
  readonly path: string
  readonly title: string
  readonly help: string
  /** Grants, one of which is needed. */
  readonly needs: readonly string[]
  readonly confirm: boolean
  readonly destructive: boolean
  /** Its options: query parameters that have a single value. */
  readonly options: readonly OperationOption[]
}

export interface OperationOption {
  /** `NAME=VALUE`, for the query. */
  readonly query: string
  readonly help: string
}

const BASE_PATH = '/api/v1'

/** Operations by path and method. */
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** The OpenAPI document of the device: which routes it has, and what the configuration consists of. */
export class Document {
  readonly #paths: Paths
  /** The schema of the configuration. */
  readonly system: Schema

  constructor(document: JsonObject) {
    this.#paths = (document.paths ?? {}) as unknown as Paths
    this.system = resolved(document, '#/components/schemas/System')
  }

  has(method: string, path: string): boolean {
    return this.#operation(method, path) !== undefined
  }

  /** An operation, as the device describes it. */
  help(method: string, path: string): string {
    return this.#operation(method, path)?.description ?? ''
  }

  /** The schema of a query parameter. */
  parameter(method: string, path: string, name: string): Schema {
    return this.#operation(method, path)?.parameters?.find(parameter => parameter.name === name)?.schema ?? {}
  }

  /** The operations on the device, in the order of the document. */
  get operations(): readonly DeviceOperation[] {
    return Object.entries(this.#paths).flatMap(([path, { post }]) => {
      const traits = post?.['x-operation']
      if (!traits) return []
      const { summary = path, description = '', security = [], parameters = [] } = post
      const needs = security.flatMap(scheme => Object.values(scheme).flat())
      const options = parameters.flatMap(({ name, description = '', schema }) =>
        schema?.enum?.length === 1 ? [{ query: `${name}=${schema.enum[0]}`, help: description }] : [],
      )
      return [{ ...traits, path: path.replace(BASE_PATH, ''), title: summary, help: description, needs, options }]
    })
  }

  #operation(method: string, path: string): Operation | undefined {
    return this.#paths[BASE_PATH + path]?.[method.toLowerCase()]
  }
}

/** Far more than any description has: references to references can multiply without end. */
const MAX_VALUES = 100_000

/**
 * The schema at a reference, with what its own references refer to in their place.
 * @throws {RangeError} if it has no end.
 */
function resolved(document: JsonObject, reference: string): Schema {
  let values = 0
  const inside = (value: Json): Json => {
    if (++values > MAX_VALUES) throw RangeError()
    if (Array.isArray(value)) return value.map(inside)
    if (!isObject(value)) return value
    if (typeof value.$ref === 'string') return inside(at(document, value.$ref))
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, inside(member)]))
  }
  return inside(at(document, reference)) as unknown as Schema
}

function at(document: JsonObject, reference: string): Json {
  return reference
    .split('/')
    .slice(1)
    .reduce<Json>((value, name) => (isObject(value) ? (value[name] ?? {}) : {}), document)
}
