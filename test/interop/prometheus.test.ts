/** The metrics, as Prometheus itself reads them, with the configuration of the API's README. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { freePort } from '../support/port.ts'
import { examples } from '../support/readme.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

const [CONFIGURATION = ''] = examples('src/api/README.md', 'Status, logs and metrics', 'yaml')
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

t.test('Prometheus scrapes it with a token', { skip }, async t => {
  const receiver = await startBusy(t)
  const folder = temporaryFolder(t)
  const [config, token] = [join(folder, 'prometheus.yml'), join(folder, 'token')]
  const { stdout } = await receiverd(['token', '--role', 'admin:r', '--root', receiver.root])
  writeFileSync(token, stdout)
  const scraping = CONFIGURATION.replace('/etc/prometheus/receivers.token', token)
    .replace('receiver.example:8080', new URL(receiver.url).host)
    .concat('global: { scrape_interval: 100ms, scrape_timeout: 100ms }\n')
  t.match(scraping, token)
  t.match(scraping, new URL(receiver.url).host)
  writeFileSync(config, scraping)
  execFileSync('promtool', ['check', 'config', config])

  const port = await freePort()
  const options = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const prometheus = spawn('prometheus', options, { stdio: 'ignore', cwd: folder })
  t.teardown(() => prometheus.kill('SIGKILL'))
  const ask = async (query: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`)
    const { data } = (await answer.json()) as { data: { result: { metric: object; value: [number, string] }[] } }
    return data.result
  }
  const [up] = await eventually(async () => {
    const result = await ask('up == 1').catch(() => [])
    return result.length > 0 && result
  })
  t.match(up, { metric: { job: 'receivers', instance: new URL(receiver.url).host } })
  t.match(await ask('receiverd_build_info'), [{ metric: { version: /^\d/, node: /^\d/ } }])
  t.match(await ask('receiverd_changes_total{setting="deviceName",outcome="applied"}'), [{ value: [Number, '1'] }])
  t.match(await ask('histogram_quantile(0.99, receiverd_change_duration_seconds_bucket)'), [
    { value: [Number, /^0\./] },
  ])
  t.match(await ask('time() - receiverd_process_start_time_seconds'), [{ value: [Number, /^\d/] }])
  const types = await (await fetch(`http://127.0.0.1:${port}/api/v1/metadata?metric=receiverd_build`)).json()
  t.match(types, { data: { receiverd_build: [{ type: 'info' }] } }, 'OpenMetrics, which it prefers')

  await receiver.fetch('/api-key', { method: 'POST' })
  await eventually(async () => (await ask('up == 0')).length > 0)
  t.pass('refused when the key was replaced')
})
