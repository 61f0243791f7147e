/** A client that openapi-typescript generates from the document: it compiles, and it works. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { DEADLINE_MS } from '../support/eventually.ts'
import { run } from '../support/run.ts'
import { startReceiver } from './support.ts'

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url))

/** A stranger's program, with the generated types and no cast. */
const PROGRAM = `
import createClient from 'openapi-fetch'
import type { components, operations, paths } from './api.ts'

type Schemas = components['schemas']
declare const process: { readonly argv: readonly string[] }
const [, , baseUrl = '', key = ''] = process.argv
const client = createClient<paths>({ baseUrl, headers: { Authorization: 'Bearer ' + key } })

const { data: system, response } = await client.GET('/api/v1/system')
if (!system) throw new Error('no configuration')
const before: string | undefined = system.deviceName
const ntp: Schemas['Ntp'] | undefined = system.ntp
const servers: readonly string[] = ntp?.servers ?? []

const headers = { 'If-Match': response.headers.get('etag') ?? '' }
const patch: Schemas['SystemPatch'] = { deviceName: 'Generated', ntp: { servers: ['time.example'] } }
const patched = await client.PATCH('/api/v1/system', { body: patch, params: { header: headers } })
const after: Schemas['System'] | undefined = patched.data

const refused = await client.PATCH('/api/v1/system', { body: { hostname: '-' }, params: { query: { confirmWithin: 5 } } })
const problem: Schemas['Problem'] | undefined = refused.error
const pointers = problem?.errors?.map(error => error.pointer)

const { data: events } = await client.GET('/api/v1/events', {
  params: { query: { initialEventId: headers['If-Match'].replaceAll('"', '') } },
  headers: { Accept: 'application/json' },
})
const [event]: readonly Schemas['Event'][] = Array.isArray(events) ? events : []
const changed: string | undefined = event?.event === 'system.changed' ? event.data.deviceName : undefined
const undone: readonly string[] = event?.event === 'system.reverted' ? event.data.notUndone : []
const cursor: string | undefined = event?.id

const { data: health } = await client.GET('/api/v1/health')
const { data: replaced } = await client.POST('/api/v1/api-key')
const apiKey: string | undefined = replaced?.apiKey

const wired: Schemas['SystemPatch'] = { network: { eth0: { dns: ['192.0.2.53'] } }, moderation: { timeoutS: 60 } }
// @ts-expect-error there is no such setting
const typo: Schemas['SystemPatch'] = { devicename: 'x' }
// @ts-expect-error it is called servers
const deepTypo: Schemas['SystemPatch'] = { ntp: { server: [] } }
// @ts-expect-error only system.changed has a configuration
if (event?.event === 'events.resync') event.data.hostname

// @ts-expect-error there is no such path
await client.GET('/api/v1/sytem')
// @ts-expect-error there is no such property
system.hostnam
const names: readonly (keyof operations)[] = [
  'getSystem', 'patchSystem', 'confirmSystem', 'getEvents', 'replaceApiKey', 'getHealth', 'getOpenApi',
]
console.log(JSON.stringify({ before, servers, after: after?.deviceName, pointers, event: event?.event, changed, hasCursor: cursor !== undefined, undone, wired, typo, deepTypo, health, apiKey, names }))
`

/** The compiler works for seconds without a pause, and on a busy machine for many. */
const COMPILER_MS = 4 * DEADLINE_MS
const COMPILER_OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  target: 'es2022',
  lib: ['es2022', 'dom', 'dom.iterable'],
  module: 'nodenext',
  rewriteRelativeImportExtensions: true,
  types: [],
  // Without the compiler's own declarations of a browser, which take longer to check than all else.
  skipDefaultLibCheck: true,
}

t.test('a generated client compiles, and works', async t => {
  const receiver = await startReceiver(t)
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-client-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  symlinkSync(MODULES, join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'openapi.json'), await (await fetch(`${receiver.url}/api/v1/openapi.json`)).text())
  writeFileSync(join(folder, 'client.ts'), PROGRAM)
  const node = (...args: readonly string[]) => run(process.execPath, args, {}, { withinMs: COMPILER_MS })
  const bin = (name: string) => join(MODULES, name)

  const generated = await node(
    bin('openapi-typescript/bin/cli.js'),
    ...[join(folder, 'openapi.json'), '--output', join(folder, 'api.ts')],
  )
  t.equal(generated.status, 0, generated.stderr)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: ['client.ts'] }),
  )
  const compiled = await node(bin('typescript/bin/tsc'), '--project', folder)
  t.equal(compiled.status, 0, compiled.stdout)

  const before = receiver.key
  const { stdout, stderr, status } = await node(join(folder, 'client.js'), receiver.url, before)
  t.equal(status, 0, stderr)
  t.match(JSON.parse(stdout), {
    before: 'Meeting Room 4',
    servers: Array,
    after: 'Generated',
    pointers: ['/hostname'],
    event: 'system.changed',
    changed: 'Generated',
    hasCursor: true,
    health: { status: 'ok' },
    apiKey: receiver.key,
  })
  t.not(receiver.key, before)
})
