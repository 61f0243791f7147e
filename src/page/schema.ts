import { isObject, type Json, type JsonObject } from './json.ts'

/** The part of a JSON Schema that the page uses. */
export interface Schema {
  readonly type?: string
  readonly enum?: readonly Json[]
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly readOnly?: boolean
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  /** Seconds within which a change of it must be confirmed: it can lock its maker out. */
  readonly 'x-confirm-within'?: number
}

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly schema?: Schema }[]
}

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

  /** The schema of a query parameter. */
  parameter(method: string, path: string, name: string): Schema {
    return this.#operation(method, path)?.parameters?.find(parameter => parameter.name === name)?.schema ?? {}
  }

  #operation(method: string, path: string): Operation | undefined {
    return this.#paths[`/api/v1${path}`]?.[method.toLowerCase()]
  }
}

/** The schema at a reference, with what its own references refer to in their place. */
function resolved(document: JsonObject, reference: string): Schema {
  const inside = (value: Json): Json => {
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
