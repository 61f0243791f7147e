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
  /** The setting is shown only while a sibling has this value. */
  readonly 'x-only-with'?: JsonObject
  /** When a sibling is set to this value, an empty setting takes the device's proposal. */
  readonly 'x-propose-with'?: JsonObject
  /** The setting whose value stands for an empty one. */
  readonly 'x-empty-means'?: string
  /** The value is a time of day such as 02:00, or empty. */
  readonly 'x-time-of-day'?: boolean
  /** The setting identifies the device. */
  readonly 'x-identity'?: boolean
  /** Seconds within which a change must be confirmed, because it can lock out its author. */
  readonly 'x-confirm-within'?: number
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  /** Grants by credential scheme; any one of them suffices. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly 'x-operation'?: { readonly confirm: boolean; readonly destructive: boolean }
  readonly parameters?: readonly { readonly name: string; readonly description?: string; readonly schema?: Schema }[]
}

/** An operation of the device that can be started from the page. */
export interface DeviceOperation {
  readonly path: string
  readonly title: string
  readonly help: string
  /** Grants; any one of them suffices. */
  readonly needs: readonly string[]
  readonly confirm: boolean
  readonly destructive: boolean
  /** Query parameters with a single possible value. */
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

/** The OpenAPI document of the device: its routes, and the schema of its configuration. */
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

  /** Returns the device's description of an operation. */
  help(method: string, path: string): string {
    return this.#operation(method, path)?.description ?? ''
  }

  /** Returns the schema of a query parameter; empty if there is none. */
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

/** The most values of a resolved schema: far more than any real one has. Nested references can multiply without end. */
const MAX_VALUES = 100_000

/**
 * Returns the schema at a reference, with all references in it resolved.
 * @throws {RangeError} if the schema is too large, as a recursive one is.
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
