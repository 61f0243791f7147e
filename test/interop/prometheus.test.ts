/** The metrics, as Prometheus itself reads them, with the configuration of the API's README. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { OFTEN, startPrometheus } from '../support/prometheus.ts'
import { examples } from '../support/readme.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

const [JOBS = '', LIST_JOB = ''] = examples('src/api/README.md', 'Status, logs and metrics', 'yaml')
const [LIST = ''] = examples('src/api/README.md', 'Status, logs and metrics', 'json')
const skip = needs('prometheus', 'promtool')

/** A service that has something of everything to tell. */
async function startBusy(t: Test): Promise<Receiver> {
  const receiver = await startReceiver(t)
  await receiver.patch({ deviceName: 'Next' })
  await receiver.patch({ deviceName: '' })
  await receiver.fetchAs('nobody')
  await receiver.fetch('/events')
  return receiver
}

t.test('promtool finds nothing to warn of', { skip }, async t => {
  const receiver = await startBusy(t)
  const input = await (await receiver.fetch('/metrics')).text()
  t.match(input, 'receiverd_http_requests_total{')
  t.match(spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' }), {
    status: 0,
    stdout: '',
    stderr: '',
  })
  const broken = input.replaceAll('changes_total', 'changes')
  t.match(spawnSync('promtool', ['check', 'metrics'], { input: broken }), { status: 3 }, 'it does look')
})

const hostOf = ({ url }: Receiver) => new URL(url).host
const tokenFor = async ({ root }: Receiver) =>
  (await receiverd(['token', '--role', 'admin:r', '--root', root])).stdout.trim()

t.test('Prometheus scrapes each with a token of its own', { skip }, async t => {
  const [receiver, other] = [await startBusy(t), await startReceiver(t)]
  const folder = temporaryFolder(t)
  let jobs = JOBS
  for (const [name, device] of [
    ['lobby', receiver],
    ['hall', other],
  ] as const) {
    writeFileSync(join(folder, name), await tokenFor(device))
    t.match(jobs, `/etc/prometheus/${name}.token`)
    t.match(jobs, `${name}.example:8080`)
    jobs = jobs
      .replace(`/etc/prometheus/${name}.token`, join(folder, name))
      .replace(`${name}.example:8080`, hostOf(device))
  }
  const { api, ask, some, untilUp } = await startPrometheus(t, jobs + OFTEN)
  const up = await untilUp(2)
  t.same(
    new Map(up.map(({ metric }) => [metric.job, metric.instance])),
    new Map([
      ['lobby', hostOf(receiver)],
      ['hall', hostOf(other)],
    ]),
  )
  t.match(await some('receiverd_build_info{job="lobby"}'), [{ metric: { version: /^\d/, node: /^\d/ } }])
  t.match(await some('receiverd_device_info{job="lobby"}'), [{ metric: { name: 'Next' } }])
  t.match(await some('receiverd_changes_total{setting="deviceName",outcome="applied"}'), [{ value: [Number, '1'] }])
  t.match(await some('histogram_quantile(0.99, receiverd_change_duration_seconds_bucket)'), [
    { value: [Number, /^\d/] },
  ])
  t.match(await some('time() - receiverd_process_start_time_seconds{job="lobby"}'), [{ value: [Number, /^\d/] }])
  const types = await api('metadata?metric=receiverd_build')
  t.match(types, { data: { receiverd_build: [{ type: 'info' }] } }, 'OpenMetrics, which it prefers')

  await receiver.fetch('/api-key', { method: 'POST' })
  await eventually(async () => {
    const down = await ask('up == 0')
    return down.length === 1 && down[0]?.metric.job === 'lobby'
  })
  t.pass('refused when the key was replaced')
})

t.test('or with a list of devices and tokens, which its target page shows', { skip }, async t => {
  const devices = [await startReceiver(t), await startReceiver(t)] as const
  const [lobby, hall] = [await tokenFor(devices[0]), await tokenFor(devices[1])]
  const list = join(temporaryFolder(t), 'receivers.json')
  const text = LIST.replace('lobby.example:8080', hostOf(devices[0]))
    .replace('hall.example:8080', hostOf(devices[1]))
    .replace('TOKEN OF LOBBY', lobby)
    .replace('TOKEN OF HALL', hall)
  writeFileSync(list, text)
  const { api, untilUp } = await startPrometheus(t, LIST_JOB.replace('/etc/prometheus/receivers.json', list) + OFTEN)
  const up = await untilUp(2)
  t.same(new Set(up.map(({ metric }) => metric.instance)), new Set(devices.map(hostOf)))
  t.notMatch(JSON.stringify(up), lobby, 'no label of a series has it')
  t.match(JSON.stringify(await api('targets')), `apiKey=${lobby}`)
})
