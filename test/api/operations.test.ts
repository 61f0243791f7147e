import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import type { Run } from '../../hal/os/command.ts'
import type { JsonObject } from '../../src/json.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** The names of all operations, from the service's own description. */
async function namesOf(service: TestService): Promise<readonly string[]> {
  const { paths } = (await (await service.fetch('/openapi.json')).json()) as { paths: JsonObject }
  return Object.keys(paths).flatMap(path => path.split('/operations/').slice(1))
}

async function order(service: TestService, name: string, token = service.key) {
  const response = await service.fetchAs(token, `/operations/${name}`, { method: 'POST' })
  return { status: response.status, body: (await response.json()) as JsonObject }
}

/** A service on a running device whose commands are shown to `ran`. */
async function startRunning(t: Test, more: Run = async () => '') {
  const root = deviceRoot(t)
  const { options } = new FakeReceiver(root)
  const ran: string[] = []
  const run: Run = async (argv, env) => {
    if (argv[0] !== 'systemctl') return options.run?.(argv, env) ?? ''
    ran.push(argv.join(' '))
    return argv[1] === 'reboot' ? more(argv, env) : (options.run?.(argv, env) ?? '')
  }
  let resets = 0
  const reset = () => void resets++
  const service = await startTestService(t, { root, ...options, run, reset })
  ran.length = 0
  return { service, ran, resets: () => resets }
}

t.test('on another root each is refused', async t => {
  const service = await startTestService(t)
  const names = await namesOf(service)
  t.ok(names.includes('factory-reset'), names.join())
  for (const name of names)
    t.match(await order(service, name), { status: 409, body: { detail: /not the running system/ } })
})

t.test('each needs its grant, and a reset the key itself', async t => {
  const { service, ran, resets } = await startRunning(t)
  for (const name of await namesOf(service)) {
    t.equal((await order(service, name, service.token(['admin:r', 'moderator:rw']))).status, 403, name)
    t.equal((await service.fetch(`/operations/${name}`)).status, 405, name)
  }
  t.match(await order(service, 'factory-reset', service.token(['admin:rw'])), {
    status: 403,
    body: { detail: /the API key itself/ },
  })
  t.equal((await order(service, 'explode')).status, 404)
  t.same([ran, resets()], [[], 0])
})

t.test('reboot', async t => {
  let refuses = false
  const { service, ran } = await startRunning(t, async () => {
    if (refuses) throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
    return ''
  })
  const token = service.token(['admin:w'], { sub: 'panel-4' })
  t.same(await order(service, 'reboot', token), { status: 202, body: { operation: 'reboot' } })
  t.same(ran, ['systemctl reboot'])
  t.match(service.said.join('\n'), /^notice: \S+ \(a token of panel-4\) started the operation reboot$/m)
  refuses = true
  t.match(await order(service, 'reboot'), {
    status: 500,
    body: { type: /system-refused/, detail: 'The system refused reboot: systemctl failed with status 1.' },
  })
})

t.test('restart-receiver: running units are restarted, weston first; if none runs it is refused', async t => {
  const { service, ran } = await startRunning(t)
  t.equal((await order(service, 'restart-receiver')).status, 202)
  t.same(
    ran.filter(line => line.includes('restart')),
    ['systemctl try-restart weston.service', 'systemctl try-restart uxplay.service'],
  )
  const stopped = await startRunning(t)
  t.equal((await stopped.service.patch({ airplay: { enabled: false } })).status, 200)
  stopped.ran.length = 0
  t.equal((await order(stopped.service, 'restart-receiver')).status, 202)
  t.notOk(
    stopped.ran.some(line => line.includes('restart uxplay.service')),
    'a stopped unit stays so',
  )
})

t.test('identify: an LED blinks, and a stop of the service ends it', async t => {
  const { service } = await startRunning(t)
  t.match(await order(service, 'identify'), { status: 409, body: { detail: /neither a screen nor an LED/ } })
  const led = join(service.root, 'sys/class/leds/ACT')
  mkdirSync(led, { recursive: true })
  writeFileSync(join(led, 'brightness'), '0')
  writeFileSync(join(led, 'trigger'), 'none [mmc0] timer')
  t.same(await order(service, 'identify'), { status: 202, body: { operation: 'identify' } })
  t.match(readFileSync(join(led, 'trigger'), 'utf8'), /^none/)
  await service.close()
  t.match(readFileSync(join(led, 'trigger'), 'utf8'), /^mmc0/)
})

t.test('factory-reset: certain before it is answered', async t => {
  const { service, resets } = await startRunning(t)
  t.same(await order(service, 'factory-reset'), { status: 202, body: { operation: 'factory-reset' } })
  t.equal(readFileSync(service.path('var/lib/receiverd/factory-reset'), 'utf8'), '')
  t.equal(resets(), 1)
})

t.test('factory-reset: whether it forgets the card', async t => {
  const { service, resets } = await startRunning(t)
  const ordered = async (query: string) => {
    const { status } = await service.fetch(`/operations/factory-reset${query}`, { method: 'POST' })
    return [status, resets()]
  }
  for (const query of ['?card=', '?card=keep', '?card=forget&card=forget'])
    t.same(await ordered(query), [400, 0], query)
  t.same(await ordered('?card=forget'), [202, 1])
  t.equal(readFileSync(service.path('var/lib/receiverd/factory-reset'), 'utf8'), 'forget-card\n')
})

t.test('a few wait, more are refused', async t => {
  let free: () => void = () => undefined
  const held = new Promise<string>(resolve => {
    free = () => resolve('')
  })
  const { service } = await startRunning(t, () => held)
  const statuses: number[] = []
  const answers = Array.from({ length: 6 }, async () => {
    const { status, headers } = await service.fetch('/operations/reboot', { method: 'POST' })
    statuses.push(status)
    if (status === 503) t.equal(headers.get('retry-after'), '1')
  })
  await eventually(() => statuses.length === 2)
  free()
  await Promise.all(answers)
  t.same(statuses, [503, 503, 202, 202, 202, 202])
})
