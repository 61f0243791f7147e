/** The OpenAPI document of a receiver, and whether an answer conforms to it. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Receiver } from './support.ts'

interface AnswerDocs {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly required?: boolean }>>
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}

interface Operation {
  readonly operationId: string
  readonly responses: Readonly<Record<string, AnswerDocs>>
}

export interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, object>> }
}

/** An answer and its whole body. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

const DOCUMENT = 'https://receiverd.example/openapi.json'
/** Checks answers against the document, and records which operations and answers it has seen. */
export class Contract {
  readonly #document: Document
  readonly #ajv: Ajv2020
  /** As `GET /api/v1/system 200`. */
  readonly seen = new Set<string>()

  constructor(document: Document) {
    this.#document = document
    this.#ajv = new Ajv2020({ allErrors: true, strict: true, strictSchema: false })
    addFormats.default(this.#ajv)
    this.#ajv.addSchema(document, DOCUMENT)
  }

  /** Why an answer does not conform to the document; empty if it does. */
  misfits(method: string, path: string, { status, headers, body }: Answer): readonly string[] {
    const operation = this.#document.paths[path]?.[method.toLowerCase()]
    if (!operation) return [`${method} ${path} is not in the document`]
    const name = operation.responses[status] ? String(status) : 'default'
    const docs = operation.responses[name]
    if (!docs) return [`${method} ${path} has no answer ${status}, and no default`]
    this.seen.add(`${method} ${path} ${status}`)

    const type = headers.get('content-type')?.split(';', 1)[0] ?? ''
    const required = Object.entries(docs.headers ?? {}).filter(([, { required }]) => required)
    const missing = required.map(([header]) => header).filter(header => !headers.has(header))
    const media = docs.content?.[type]
    return [
      ...missing.map(header => `it has no ${header}`),
      ...(media ? this.#bodyMisfits([method, path, name, type], body) : bodyless(docs, type, body)),
    ]
  }

  /** The operations of the document, as `GET /api/v1/system`. */
  get operations(): readonly string[] {
    return Object.entries(this.#document.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map(method => `${method.toUpperCase()} ${path}`),
    )
  }

  /** Why a body does not fit the schema of a problem. */
  problemMisfits(body: string): readonly string[] {
    return this.#schemaMisfits('components/schemas/Problem', JSON.parse(body))
  }

  #bodyMisfits([method = '', path = '', answer = '', type = '']: readonly string[], body: string): readonly string[] {
    const steps = ['paths', path, method.toLowerCase(), 'responses', answer, 'content', type, 'schema']
    const pointer = steps.map(step => step.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')
    return this.#schemaMisfits(pointer, type.endsWith('json') ? JSON.parse(body) : body)
  }

  #schemaMisfits(pointer: string, value: unknown): readonly string[] {
    // Compiles each schema once, which takes far longer than to apply it.
    const validate = this.#ajv.getSchema(`${DOCUMENT}#/${encodeURI(pointer)}`)
    if (!validate) throw new Error(`${pointer} is not in the document`)
    return validate(value) ? [] : [`its body does not fit: ${this.#ajv.errorsText(validate.errors)}`]
  }
}

function bodyless(docs: AnswerDocs, type: string, body: string): readonly string[] {
  const isNone = type === '' && body === ''
  if (docs.content === undefined && isNone) return []
  return [`its type is "${type}", which is none of: ${Object.keys(docs.content ?? {}).join(', ') || 'no body'}`]
}

export async function documentOf({ url }: Pick<Receiver, 'url'>): Promise<Document> {
  return (await (await fetch(`${url}/api/v1/openapi.json`)).json()) as Document
}
