/** The description of the API, as clients read it. */
import t from 'tap'
import { startTestService } from '../support/service.ts'

interface Schema {
  readonly $ref?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
}

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> }
}

t.test('each body that a client sends has a name, and each of its members a description', async t => {
  const service = await startTestService(t)
  const { paths, components } = (await (await service.fetch('/openapi.json')).json()) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
    readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
  }
  const operations = Object.values(paths).flatMap(methods => Object.values(methods))
  const bodies = operations.flatMap(({ requestBody }) => requestBody?.content['application/json']?.schema ?? [])
  t.ok(bodies.length > 5, `${bodies.length} bodies`)
  for (const { $ref = '' } of bodies) {
    const [, name = ''] = /^#\/components\/schemas\/(\w+(?:Request|Patch))$/.exec($ref) ?? []
    const { properties = {} } = components.schemas[name] ?? {}
    t.ok(name && Object.keys(properties).length > 0, $ref)
    for (const [member, { $ref: named, description }] of Object.entries(properties))
      t.ok(named ?? description, `${name}, ${member}`)
  }
})
