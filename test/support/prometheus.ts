/** Debian's Prometheus as a process. */
import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from './eventually.ts'
import { temporaryFolder } from './folder.ts'
import { freePort } from './port.ts'

/** Ends a configuration, so that a test need not wait for long. */
export const OFTEN = 'global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 100ms }\n'

/** Runs Prometheus. @returns its client. */
export async function startPrometheus(t: Test, configuration: string) {
  const folder = temporaryFolder(t)
  const config = join(folder, 'prometheus.yml')
  writeFileSync(config, configuration)
  execFileSync('promtool', ['check', 'config', config])
  const port = await freePort()
  const options = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const prometheus = spawn('prometheus', options, { stdio: 'ignore', cwd: folder })
  t.teardown(() => prometheus.kill('SIGKILL'))
  const api = async (path: string) => (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json()
  const ask = async (query: string) => {
    const { data } = (await api(`query?query=${encodeURIComponent(query)}`)) as {
      data: { result: { metric: Record<string, string>; value: [number, string] }[] }
    }
    return data.result
  }
  /** Asks until there is an answer: a target that was late for one scrape has no series until the next. */
  const some = (query: string) =>
    eventually(async () => {
      const result = await ask(query)
      return result.length > 0 && result
    })
  const untilUp = (count: number) =>
    eventually(async () => {
      const result = await ask('up == 1').catch(() => [])
      return result.length === count && result
    })
  return { api, ask, some, untilUp, pid: prometheus.pid ?? 0 }
}
