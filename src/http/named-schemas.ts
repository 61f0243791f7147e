/**
 * The schemas of an OpenAPI document that have a name, their `$id`. Each is listed once and referenced everywhere else, so
 * that generated clients have one type for it.
 */
export class NamedSchemas {
  readonly #all: Record<string, unknown> = {}

  /** The schemas by name, in the order of their first use. */
  get all(): Readonly<Record<string, unknown>> {
    return this.#all
  }

  /** Returns the schema with references in place of the named schemas in it. */
  reference(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map(item => this.reference(item))
    if (typeof schema !== 'object' || schema === null) return schema
    const { $id: name, ...rest } = schema as { $id?: unknown }
    if (typeof name !== 'string') return this.#inside(rest)
    // `$id` is removed: it would become the base of the references inside (JSON Schema 2020-12 §8.2.1).
    this.#all[name] ??= this.#inside(rest)
    return { $ref: `#/components/schemas/${name}` }
  }

  #inside(schema: object): object {
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, this.reference(value)]))
  }
}
