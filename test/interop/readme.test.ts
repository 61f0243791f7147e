/** The examples of the READMEs, pasted. */
import { join } from 'node:path'
import { EventSource } from 'eventsource'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { examples, readText } from '../support/readme.ts'
import { run } from '../support/run.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

const API = 'src/api/README.md'
const SESSIONS = 'src/sessions/README.md'
const EXAMPLE = examples(API, 'In a browser', 'js').join('')

t.jobs = 4

interface OpenApi {
  readonly paths: Record<
    string,
    Record<string, { readonly security: readonly Readonly<Record<string, readonly string[]>>[] }>
  >
  readonly components: { readonly schemas: { readonly System: { readonly properties: JsonObject } } }
}

t.test('the commands of curl', async t => {
  const engines = join(temporaryFolder(t), 'engines')
  const receiver = await startReceiver(t, { env: { RECEIVERD_ENGINES: engines } })
  const paste = async (commands: string) => {
    const env = { API: `${receiver.url}/api/v1`, KEY: receiver.key }
    const { status, stdout, stderr } = await run('sh', ['-c', commands.replaceAll('curl ', 'curl -sS ')], env)
    t.match({ status, stderr }, { status: 0, stderr: '' })
    return stdout
  }
  const pasted: string[] = []
  for (const heading of ['Credentials', 'Configuration'])
    for (const commands of examples(API, heading, 'sh')) pasted.push(await paste(commands))
  t.equal(pasted.length, 4)
  const [credentials = '', change = '', preview = '', trial = ''] = pasted
  t.equal(credentials.match(/"deviceName":"Meeting Room 4"/g)?.length, 4, 'each way of sending the key')
  t.match(change, '"hostname":"room-4"')
  t.equal(preview, '{"changes":{"timezone":"UTC"}}')
  t.match(trial, /^HTTP\/1\.1 200 .*^Confirm-Within: 60\r$.*"hostname":"room-5"/ms)
  t.equal((await receiver.system()).value.hostname, 'room-5', 'confirmed')

  const [joining = ''] = examples(API, 'Wi-Fi', 'sh')
  t.match(await paste(joining), '"ssid":"Office","password":"set"')
  t.equal((await receiver.fetch('/system/confirm', { method: 'POST' })).status, 200, 'on trial')

  const [look = ''] = examples(API, 'Status, logs and metrics', 'sh')
  const [status = '', log = '', metrics = ''] = look.split('\n')
  t.match(JSON.parse(await paste(status)), { version: /^\d/, connections: Number })
  t.match(JSON.parse(await paste(log)), { status: 409, detail: /not the running system/ })
  t.match(await paste(metrics), /^receiverd_connections \d+$/m)
  const [operate = ''] = examples(API, 'Operations', 'sh')
  for (const operation of operate.trim().split('\n'))
    t.match(JSON.parse(await paste(operation)), { status: 409, detail: /not the running system/ }, operation)
  const [make = ''] = examples(API, 'Tokens', 'sh')
  const { token } = JSON.parse(await paste(make)) as { token: string }
  t.equal((await receiver.fetchAs(token)).status, 200)
  t.equal((await receiver.fetchAs(token, '/sessions')).status, 403)

  const [moderate = '', decide = ''] = examples(SESSIONS, 'Moderating', 'sh')
  const [command = '', ask = ''] = examples(SESSIONS, 'Engines', 'sh')
  t.match(JSON.parse(await paste(moderate)), { moderation: { approval: 'moderator' } })
  const engine = ask.replace('/run/receiverd/engines.sock', engines)
  const asking = run('sh', ['-c', engine.replace('curl', 'exec timeout -s INT 20 curl -sS')]).catch(() => undefined)
  const { id } = await eventually(async () => {
    const { sessions } = (await (await receiver.fetch('/sessions')).json()) as { sessions: { id: string }[] }
    return sessions[0]
  })
  const [list = '', admit = ''] = decide.split('\n')
  const asModerator = `TOKEN=$KEY ID=${id}; `
  t.match(await paste(`${asModerator}${list}; ${admit}`), /"name":"Pixel 9".*"state":"active"/s)
  t.match(command, 'receiverd session --protocol miracast')

  const [poll = ''] = examples(API, 'By long polling', 'sh')
  const held = paste(poll)
  const answered = held.then(() => true)
  for (let n = 0; !(await Promise.race([answered, pause(200)])); n++) await receiver.patch({ deviceName: `Poll ${n}` })
  t.match(await held, /^HTTP\/1\.1 200 .*^ETag: .*"event":"system.changed"/ms)
  await receiver.stop()
  await asking
})

function grantsOf(security: readonly Readonly<Record<string, readonly string[]>>[]): readonly string[] {
  if (security.length === 0) return ['nothing']
  const grants = security.flatMap(scheme => Object.values(scheme).flat())
  return grants.length === 0 ? ['any credential'] : grants
}

t.test('the tables of operations and settings are complete', async t => {
  const receiver = await startReceiver(t)
  const { paths, components } = (await (await receiver.fetch('/openapi.json')).json()) as OpenApi
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, docs]) => ({
      name: `${method.toUpperCase()} ${path.replace('/api/v1', '')}`,
      grants: grantsOf(docs.security),
    })),
  )
  const listed = rowsOf(API).flatMap(([names = '', requires = '', purpose = '']) =>
    codeIn(names).flatMap(name =>
      name.endsWith('/operations/{name}')
        ? codeIn(purpose).map(operation => ({ name: name.replace('{name}', operation), requires }))
        : [{ name, requires }],
    ),
  )
  const routes = listed.filter(({ name }) => /^[A-Z]+ \//.test(name))
  t.same(
    routes.map(({ name }) => name).sort(),
    operations.map(({ name }) => name).sort(),
    `${API} has every route, and no other`,
  )
  for (const { name, requires } of routes)
    t.match(
      operations.find(operation => operation.name === name)?.grants,
      [requires.replaceAll('`', '').replace('the API key', 'api-key')],
      name,
    )

  for (const [, effect] of routes.map(({ name }) => name.split('POST /operations/')))
    if (effect)
      t.ok(
        rowsOf(API).some(([operation]) => operation === `\`${effect}\``),
        `${API}: the table of effects has ${effect}`,
      )

  const settings = rowsOf('hal/README.md').flatMap(([property = '']) => codeIn(property).slice(0, 1))
  const named = new Set(settings.filter(name => !/[/=]/.test(name)).map(name => name.split('.', 1)[0]))
  t.same([...named].sort(), Object.keys(components.schemas.System.properties).sort())
})

t.test('EventSource: follows, and gets a new token when the old one has expired', async t => {
  // An expiry is noticed at the heartbeat after it. The token must last until the client has used it: on a busy machine, the
  // command that makes it takes a second to end.
  const receiver = await startReceiver(t, { env: { RECEIVERD_HEARTBEAT_S: '1' } })
  const client = await startExample(t, receiver, ['--expires-in', '20s'])
  await receiver.patch({ deviceName: 'Before' })
  await eventually(() => client.configuration()?.deviceName === 'Before')
  await eventually(() => client.tokens() > 1)
  await receiver.patch({ deviceName: 'After' })
  await eventually(() => client.configuration()?.deviceName === 'After')
  t.same(client.errors, [])
})

t.test('EventSource: keeps its token while the service restarts', async t => {
  const receiver = await startReceiver(t)
  const client = await startExample(t, receiver)
  await receiver.patch({ deviceName: 'Before' })
  await eventually(() => client.configuration()?.deviceName === 'Before')
  await receiver.restart()
  await receiver.patch({ deviceName: 'After' })
  await eventually(() => client.configuration()?.deviceName === 'After')
  t.equal(client.tokens(), 1)
  t.same(client.errors, [])
})

t.test('EventSource: gets a new token when the key was replaced, also while it was away', async t => {
  const receiver = await startReceiver(t)
  const client = await startExample(t, receiver)
  await eventually(() => client.configuration() !== undefined)
  await receiver.fetch('/api-key', { method: 'POST' })
  await receiver.patch({ deviceName: 'Rotated' })
  await eventually(() => client.configuration()?.deviceName === 'Rotated')

  // The reason cannot reach it: it finds out by a 401.
  await receiver.kill()
  await receiverd(['key', 'rotate', '--root', receiver.root])
  await receiver.start(new URL(receiver.url).host)
  await receiver.patch({ deviceName: 'Rotated while away' })
  await eventually(() => client.configuration()?.deviceName === 'Rotated while away')
})

/** Runs the example for browsers against a receiver; `getToken` makes tokens with the given options. */
async function startExample(t: Test, receiver: Receiver, options: readonly string[] = []) {
  const errors: unknown[] = []
  const sources: EventSource[] = []
  let isOver = false
  let isOpen = false
  let count = 0
  let configuration: () => JsonObject | undefined = () => undefined
  const getToken = async () => {
    // The example never ends.
    if (isOver) return new Promise<string>(() => undefined)
    count++
    return (await receiverd(['token', '--role', 'admin:r', '--root', receiver.root, ...options])).stdout.trim()
  }
  class Source extends EventSource {
    constructor(url: string) {
      super(url)
      sources.push(this)
      this.addEventListener('open', () => {
        isOpen = true
      })
    }
  }
  t.teardown(() => {
    isOver = true
    for (const source of sources) source.close()
  })
  const names = {
    getToken,
    EventSource: Source,
    console: { error: (error: unknown) => errors.push(error) },
    // The pauses of the example, shortened.
    setTimeout: (resolve: () => void) => setTimeout(resolve, 100),
    observe: (read: typeof configuration) => {
      configuration = read
    },
  }
  const body = EXAMPLE.replace('http://receiver.example:8080', receiver.url).replace(
    'let configuration\n',
    'let configuration\nobserve(() => configuration)\n',
  )
  t.match(body, `const api = '${receiver.url}/api/v1'\n`)
  t.match(body, 'observe(')
  const program = new Function(...Object.keys(names), `return (async () => { ${body} })()`)
  program(...Object.values(names))
  await eventually(() => isOpen)
  return { configuration: () => configuration(), tokens: () => count, errors }
}

function pause(ms: number): Promise<false> {
  return new Promise(resolve => setTimeout(() => resolve(false), ms))
}

/** The cells of the rows of a README's tables. */
function rowsOf(path: string): readonly (readonly string[])[] {
  const rows = readText(path).matchAll(/^\|(.*)\|$/gm)
  return Array.from(rows, ([, cells = '']) => cells.split('|').map(cell => cell.trim()))
}

function codeIn(text: string): readonly string[] {
  return Array.from(text.matchAll(/`(.*?)`/g), ([, code = '']) => code)
}
