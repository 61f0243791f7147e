/**
 * The schemas of an OpenAPI document that have a name, their `$id`: listed once, and referred to everywhere else, so that
 * generated clients have a type for each.
 */
export class NamedSchemas {
  readonly #all: Record<string, unknown> = {}

  /** By name, in the order in which they were met. */
  get all(): Readonly<Record<string, unknown>> {
    return this.#all
  }

  /** The schema, with a reference in place of each named one in it. */
  reference(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map(item => this.reference(item))
    if (typeof schema !== 'object' || schema === null) return schema
    const { $id: name, ...rest } = schema as { $id?: unknown }
    if (typeof name !== 'string') return this.#inside(rest)
    // Without `$id`: it would be the base of the references in it (JSON Schema 2020-12 §8.2.1).
    this.#all[name] ??= this.#inside(rest)
    return { $ref: `#/components/schemas/${name}` }
  }

  #inside(schema: object): object {
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, this.reference(value)]))
  }
}
