/** src/fleet/README.md on Prometheus and Grafana, with Prometheus itself, and two devices behind TLS. */
import { generateKeyPairSync } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Receiver, startReceiver } from '../interop/support.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { bootKernel } from '../support/kernel.ts'
import { needs } from '../support/needs.ts'
import { startPrometheus } from '../support/prometheus.ts'
import { readText } from '../support/readme.ts'
import { CONFIGURATION, configurationOf, RULES } from './prometheus.ts'
import { certificateOf, Network, Owner } from './support.ts'

const DASHBOARD = 'src/fleet/grafana/receiverd.json'
/** Seldom enough for a device on a busy machine: one that is late is down for that moment. */
const OFTEN = 'global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 100ms }\n'
const skip = needs('prometheus', 'promtool')

/** Absent, as these devices lack UxPlay, nginx with a certificate, and RAUC. */
const NOT_HERE = [
  'receiverd_airplay_ready',
  'receiverd_certificate_expiry_timestamp_seconds',
  'receiverd_update_last_outcome',
]

interface Target {
  readonly refId: string
  readonly expr: string
  readonly instant: boolean
}

interface Answer {
  readonly status: string
  readonly error?: string
  readonly data?: { readonly result: readonly unknown[] }
}

interface Dashboard {
  readonly templating: {
    readonly list: readonly {
      readonly name: string
      readonly definition?: string
      readonly regex: string
      readonly allValue?: string
    }[]
  }
  readonly panels: readonly { readonly title: string; readonly targets: readonly Target[] }[]
}

const dashboard = JSON.parse(readText(DASHBOARD)) as Dashboard

/** A device where somebody mirrors, somebody waits, and somebody was turned down. */
async function startBusy(t: Test, groups: readonly string[]): Promise<Receiver> {
  const engines = join(temporaryFolder(t), 'engines')
  const receiver = await startReceiver(t, { env: { RECEIVERD_ENGINES: engines } })
  bootKernel(receiver)
  await receiver.patch({ groups, moderation: { approval: 'moderator' } })
  await receiver.fetchAs('nobody')
  for (const state of ['active', 'pending', 'pending']) {
    const body = JSON.stringify({ protocol: 'miracast', name: 'Pixel', ...(state === 'active' && { state }) })
    const headers = { 'Content-Type': 'application/json' }
    const engine = request({ socketPath: engines, path: '/sessions', method: 'POST', headers })
    engine.on('error', () => undefined).end(body)
    t.teardown(() => engine.destroy())
  }
  const sessions = async () => {
    const { sessions } = (await (await receiver.fetch('/sessions')).json()) as {
      sessions: { id: string; state: string }[]
    }
    return sessions
  }
  const all = await eventually(async () => (await sessions()).length === 3 && sessions())
  const one = all.find(({ state }) => state === 'pending')
  await receiver.fetch(`/sessions/${one?.id}`, { method: 'DELETE' })
  return receiver
}

/** An owner whose devices know the issuer, with the files that the README has them make. */
async function startFleet(t: Test) {
  const owner = new Owner(t)
  const { privateKey } = generateKeyPairSync('ed25519')
  owner.write('issuer.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  const lines: string[] = []
  const keys: string[] = []
  const networks: Network[] = []
  for (const group of ['lobby', 'hall']) {
    const receiver = await startBusy(t, group === 'lobby' ? ['floor-4', 'lobby'] : ['hall'])
    const own = certificateOf(group)
    const network = await Network.to(t, receiver.port, own)
    networks.push(network)
    keys.push(`${group}-1,${receiver.key}\n`)
    lines.push(`  ${group}-1: { address: "${network.address}", pin: "${own.pin}", groups: [${group}] }\n`)
  }
  owner.write('keys.csv', keys.join(''))
  owner.write('fleet.yaml', `keys: keys.csv\ngroups: { lobby: {}, hall: {} }\ndevices:\n${lines.join('')}`)
  t.match(await owner.run(['add-issuer', '--role', 'admin:r', '--yes', 'prometheus', 'issuer.pem']), { status: 0 })
  const asked = ['--issuer', 'prometheus', '--issuer-key', 'issuer.pem', '--role', 'admin:r', '--expires-in', '12h']
  for (const args of [
    ['token', ...asked, '--output', 'prometheus.token'],
    ['targets', '--output', 'receivers.json'],
    ['certificates', '--output', 'receivers.pem'],
  ])
    t.match(await owner.run(args), { status: 0, stderr: '' })
  return { owner, networks }
}

/** A query as Grafana sends it. */
function chosen(expr: string, group: string): string {
  return expr
    .replaceAll('$__rate_interval', '10s')
    .replaceAll('$job', 'receivers')
    .replaceAll('$group', group)
    .replaceAll('$instance', '.*')
}

t.test('two devices, one token, all rules, and every query of the dashboard', { skip }, async t => {
  t.match(CONFIGURATION, 'job_name: receivers')
  const { owner, networks } = await startFleet(t)
  const { api, ask, untilUp } = await startPrometheus(t, configurationOf(owner, OFTEN))
  const up = await untilUp(2)
  t.same(
    new Set(up.map(({ metric }) => `${metric.device} ${metric.group} ${metric.instance}`)),
    new Set(networks.map(({ address }, at) => `${['lobby-1 lobby', 'hall-1 hall'][at]} ${address}`)),
  )
  // A rate needs two samples.
  await eventually(async () => (await ask('count_over_time(up[10s]) > 2')).length === 2)
  const names = new Set(`${readText(RULES)}${readText(DASHBOARD)}`.match(/\breceiverd_\w+/g))
  t.ok(names.size > 20, [...names].join())
  const absent: string[] = []
  for (const name of names) if ((await ask(`last_over_time(${name}[1m])`)).length === 0) absent.push(name)
  t.same(new Set(absent), new Set(NOT_HERE), 'metrics that are not there')

  let queries = 0
  for (const { title, targets } of dashboard.panels)
    for (const { refId, expr } of targets) {
      const empty = title === 'Devices' && refId === 'certificate'
      const answer = await eventually(async () => {
        const answer = (await api(`query?query=${encodeURIComponent(chosen(expr, '.*'))}`)) as Answer
        // A device that was late is there again after the next scrape.
        return (answer.status !== 'success' || (answer.data?.result.length === 0) === empty) && answer
      })
      t.equal(answer.status, 'success', `${title} ${refId}: ${answer.error}`)
      queries++
    }
  t.ok(queries > 25, `${queries} queries`)

  const numberOn = async (title: string, group: string) => {
    const panel = dashboard.panels.find(panel => panel.title === title && panel.targets[0]?.refId === 'A')
    const [sample] = await ask(chosen(panel?.targets[0]?.expr ?? '', group))
    return Number(sample?.value[1])
  }
  for (const [group, count] of [
    ['.*', 2],
    ['lobby', 1],
    ['floor-4', 1],
    ['(lobby|hall)', 2],
    ['floor', 0],
  ] as const) {
    for (const title of ['Devices', 'Mirroring', 'Waiting'])
      t.ok(await eventually(async () => (await numberOn(title, group)) === count), `${title} of ${group}`)
  }
  for (const { name, definition, regex } of dashboard.templating.list) {
    if (definition === undefined) continue
    const [, metric = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? []
    const found = (await ask(`last_over_time(${chosen(metric, '.*')}[1m])`)).map(({ metric }) => metric[label] ?? '')
    t.ok(found.length > 0, name)
    // Grafana takes each match of an expression with the flag g, and its first group.
    const [, source, flags] = /^\/(.*)\/(\w*)$/.exec(regex) ?? []
    if (source === undefined) continue
    const values = found.flatMap(text => Array.from(text.matchAll(new RegExp(source, flags)), ([, value]) => value))
    t.same(new Set(values), new Set(['floor-4', 'lobby', 'hall']), name)
  }

  networks[0]?.breakDown()
  await eventually(async () => (await numberOn('Down', '.*')) === 1)
  await eventually(async () => (await numberOn('Devices', 'lobby')) === 1)
  t.pass('one that is down still counts in its group')
  await eventually(async () => (await numberOn('Down', 'hall')) === 0)
})

t.test('each alert says which device it is about', { skip }, async t => {
  const owner = new Owner(t)
  owner.write('prometheus.token', 'none')
  owner.write('receivers.pem', certificateOf('x').cert)
  owner.write('receivers.json', '[]')
  // All of them, at once.
  const always =
    'expr: label_replace(label_replace(vector(1.5), "instance", "lobby:443", "", ""), "groups", "lobby", "", "")\n'
  const rules = readText(RULES)
    .replace(/^ +for: .*\n/gm, '')
    .replace(/expr: (?:>-\n(?: {10,}.*\n)+|.*\n)/g, always)
  owner.write('rules.yml', rules)
  const { api } = await startPrometheus(t, configurationOf(owner, OFTEN, owner.path('rules.yml')))
  interface Alert {
    readonly labels: Record<string, string>
    readonly annotations: Record<string, string>
  }
  const count = readText(RULES).match(/- alert:/g)?.length ?? 0
  const alerts = await eventually(async () => {
    const { data } = (await api('alerts').catch(() => ({ data: { alerts: [] } }))) as { data: { alerts: Alert[] } }
    return data.alerts.length === count && data.alerts
  })
  for (const { labels, annotations } of alerts) {
    const { summary = '', description = '' } = annotations
    const name = labels.alertname ?? ''
    t.match(labels.severity, /^(critical|warning|info)$/, name)
    t.notMatch(`${summary}${description}`, /<error|no value|\{\{/, name)
    t.match(description, /\.$/, name)
    if (name !== 'ReceiversMissing') t.match(summary, /\blobby\b/, name)
  }
})
