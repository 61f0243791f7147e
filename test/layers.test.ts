import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../build/bundle-file.ts'

/** From the ground up. A room imports from floors below its own and from itself, not from its neighbours. */
const FLOORS = [
  ['hal/errors.ts', 'hal/secret.ts', 'hal/serial.ts'],
  ['hal/engine.ts', 'hal/format'],
  ['hal/files'],
  ['hal/setting.ts'],
  ['hal/os'],
  ['hal/engines', 'hal/settings', 'hal/transaction'],
  ['hal/registry.ts'],
  [
    'src/address-count.ts',
    'src/build-info.ts',
    'src/clock.ts',
    'src/json.ts',
    'src/limits.ts',
    'src/log.ts',
    'src/problem.ts',
  ],
  ['src/metrics', 'src/options.ts', 'src/qr', 'src/settings-file', 'src/usage-error.ts', 'src/validate.ts'],
  ['src/auth', 'src/config.ts'],
  ['src/http', 'src/supervisor.ts'],
  ['src/events', 'src/listening.ts'],
  ['src/sessions', 'src/system', 'src/update'],
  ['src/page', 'src/presence'],
  ['src/api'],
  ['src/service.ts'],
  ['src/cli'],
  ['src/fleet', 'src/main.ts'],
]
/** The only files that import a module, which is a door. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  'node:fs': ['hal/files/kernel.ts'],
  'node:child_process': ['hal/os/command.ts'],
  'node:http': [
    'src/cli/service-client.ts',
    'src/fleet/client.ts',
    'src/http/encoder.ts',
    'src/http/server.ts',
    'src/sessions/engine-client.ts',
    'src/update/probe.ts',
  ],
}
/** Rooms below that are none of a room's business. */
const STRANGERS = [
  { room: 'src/events', stranger: 'hal', why: 'events knows no resource' },
  { room: 'src/auth', stranger: 'node:http', why: 'auth takes plain data, not requests' },
]

const IN_REPOSITORY = /^(build|hal|src|test)\//

interface Import {
  readonly from: string
  /** A file of the repository, or a module. */
  readonly to: string
  readonly isType: boolean
}

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', 'src/*.ts', 'hal/*.ts'], {
  cwd: REPOSITORY,
  encoding: 'utf8',
})
  .trim()
  .split('\n')
const imports: readonly Import[] = files.flatMap(from =>
  Array.from(
    readFileSync(join(REPOSITORY, from), 'utf8').matchAll(
      /^(?:import|export)( type)?\b[^'"]*?from ['"]([^'"]+)|\b(?:import|require)(?: |\()['"`]([^'"`]+)/gms,
    ),
    ([, type, named = '', other = '']) => {
      const specifier = named || other
      const to = specifier.startsWith('.') ? relative('.', join(dirname(from), specifier)) : specifier
      return { from, to, isType: type !== undefined }
    },
  ),
)

/** The floor of a file and its room there. @throws {Error} for a file that does not ship, such as a test's. */
function placeOf(file: string): { readonly floor: number; readonly room: string } {
  const rooms = FLOORS.flatMap((rooms, floor) => rooms.map(room => ({ floor, room })))
  const place = rooms.find(({ room }) => file === room || file.startsWith(`${room}/`))
  if (!place) throw new Error(`${file} is in no room: add it to the floors in test/layers.test.ts`)
  return place
}

t.test('no room imports from a floor above its own, or from a neighbour', async t => {
  t.ok(imports.length > 800, `${imports.length} imports`)
  for (const { from, to } of imports.filter(({ to }) => IN_REPOSITORY.test(to))) {
    const [importer, imported] = [placeOf(from), placeOf(to)]
    if (importer.room !== imported.room) t.ok(imported.floor < importer.floor, `${from} imports ${to}`)
  }
})

t.test('each door to the outside is one file', async t => {
  for (const [module, doors] of Object.entries(DOORS)) {
    const found = imports.filter(({ to, isType }) => !isType && (to === module || to.startsWith(`${module}/`)))
    t.strictSame(found.map(({ from }) => from).sort(), doors, module)
  }
})

t.test('some rooms know nothing of others', async t => {
  for (const { room, stranger, why } of STRANGERS)
    t.strictSame(
      imports.filter(
        ({ from, to }) => from.startsWith(`${room}/`) && (to === stranger || to.startsWith(`${stranger}/`)),
      ),
      [],
      why,
    )
})

t.test('the page takes nothing but types from what runs on the device', async t => {
  const ofPage = imports.filter(({ from, isType }) => from.startsWith('src/page/') && !isType)
  const others = ofPage.filter(({ to }) => !/^src\/(page|qr|settings-file)\//.test(to))
  t.strictSame(others, [])
})
