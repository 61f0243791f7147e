/** The update of a booted device through its API, as a person would do it. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { UpdateState } from '../../src/update/state.ts'
import { eventually } from '../support/eventually.ts'
import { CERTIFICATE_MS, type Machine } from './machine.ts'

const run = promisify(execFile)
/** The USB of an emulated Pi carries less than 0.4 MB a second on a busy host. */
const UPLOAD_S = 30 * 60
export const INSTALL_MS = 20 * 60_000
/** A restart, and then at most five minutes in which the version proves itself. */
export const TRIAL_MS = 15 * 60_000

const secondsSince = (began: number) => ((performance.now() - began) / 1000).toFixed(0)

/** @param comment Called with how long something took. */
export function updating(device: Machine, comment: (line: string) => void) {
  /** @param init For a question that is asked again anyway, its time limit. */
  const state = async (init?: RequestInit) => (await (await device.fetch('/update', init)).json()) as UpdateState

  const post = (path: string, body?: object) =>
    device.fetch(path, {
      method: 'POST',
      ...(body && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
    })

  /** Resolves once the device answers and its state is as wanted. */
  async function settled(isWanted: (state: UpdateState) => boolean, withinMs: number): Promise<UpdateState> {
    let last: UpdateState | undefined
    return eventually(async () => {
      await sleep(2_000)
      last = (await state({ signal: AbortSignal.timeout(10_000) }).catch(() => undefined)) ?? last
      return last && isWanted(last) && last
    }, withinMs).catch(() => {
      throw new Error(`the state is ${JSON.stringify(last)}\n${device.console.slice(-4_000)}`)
    })
  }

  /**
   * Gives the device settings that must outlive any update, and waits for the certificate with its new name: the nginx of earlier
   * versions ends an upload soon after that.
   */
  async function configure(): Promise<void> {
    const answer = await device.patch({ hostname: 'lobby', deviceName: 'Lobby', ntp: { servers: ['192.0.2.7'] } })
    if (!answer.ok) throw new Error(await answer.text())
    await eventually(async () => (await device.certifiedNames()).includes('DNS:lobby,'), CERTIFICATE_MS)
  }

  /**
   * Uploads through nginx. With HTTP/2, curl 7.88 takes a whole processor while it waits for the device.
   * @throws if the bundle is refused.
   */
  async function upload(bundle: string): Promise<void> {
    const began = performance.now()
    const { stdout } = await run('curl', [
      ...['-sS', '--insecure', '--http1.1', '--max-time', `${UPLOAD_S}`],
      ...['--upload-file', bundle, '--write-out', '\n%{http_code}'],
      ...['-H', `Authorization: Bearer ${device.key}`, '-H', 'Content-Type: application/vnd.rauc.bundle'],
      `https://${device.address}/api/v1/update/bundle`,
    ])
    if (!stdout.endsWith('\n201')) throw new Error(`the bundle was not taken: ${stdout}`)
    comment(`uploaded in ${secondsSince(began)} s`)
  }

  /** Resolves when the bundle is installed, or the device has already restarted. @throws if the bundle is refused. */
  async function install(body: object): Promise<void> {
    const began = performance.now()
    const answer = await post('/update/install', body)
    if (answer.status !== 202) throw new Error(`not installed: ${answer.status} ${await answer.text()}`)
    await settled(({ state }) => state !== 'installing', INSTALL_MS).catch(error => {
      // The device has restarted at once.
      if (!/fetch failed/.test(String(error))) throw error
    })
    comment(`installed in ${secondsSince(began)} s`)
  }

  /** What no update may change. */
  async function identity() {
    const { hostname, deviceName, ntp } = (await device.system()).value
    const pin = /sha256\/\/[\w+/]{43}=/.exec(await device.receiverd('key', 'show', '--verbose'))?.[0]
    return { hostname, deviceName, ntp, pin, key: device.key, machineId: await device.shell('cat /etc/machine-id') }
  }

  return { state, post, settled, configure, upload, install, identity }
}
