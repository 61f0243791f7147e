/** Services whose page is opened, with something to see on it. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { pageFromSources } from '../../build/page.ts'
import { openSession } from '../../src/sessions/engine-client.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeRauc } from '../support/fakes/rauc.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type ServiceOptions, startTestService, type TestService } from '../support/service.ts'
import { PIXEL, TestEngine } from '../support/sessions.ts'
import { bundleSays, updatable } from '../support/update-device.ts'

export const page = await pageFromSources()

export interface PageDevice {
  readonly service: TestService
  /** The link that `make run` prints. */
  readonly link: string
  /** A device that asks to mirror. */
  readonly ask: (name: string, more?: object) => Promise<TestEngine>
}

/** A service on a device of its own, where devices must be let in. */
export async function startPageDevice(t: Test, options: ServiceOptions = {}): Promise<PageDevice> {
  const engines = join(temporaryFolder(t), 'engines')
  const service = await startTestService(t, { page, ...options, env: { RECEIVERD_ENGINES: engines, ...options.env } })
  const { status } = await service.patch({ moderation: { approval: 'moderator' } })
  t.equal(status, 200, 'devices must be let in')
  return {
    service,
    link: `${service.url}/#key=${service.key}`,
    ask: async (name, more = {}) => {
      const link = await openSession(engines, { ...PIXEL, name, ...more })
      t.teardown(link.close)
      return new TestEngine(link)
    },
  }
}

/** A running system, with a journal, and with an older version to go back to. */
export function livelySystem(t: Test): ServiceOptions {
  const root = deviceRoot(t)
  mkdirSync(join(root, 'run/log/journal'), { recursive: true })
  const rauc = new FakeRauc()
  Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '0.9.0' })
  bundleSays(root, rauc, { version: '1.1.0' })
  writeFileSync(join(root, 'etc/os-release'), 'NAME="Receiver OS"\nIMAGE_VERSION=1.0.0\n')
  return {
    root,
    ...updatable(root, rauc),
    readLines: async (_, take) => {
      JOURNAL.map(record)
        .toReversed()
        .every(line => take(line))
    },
  }
}

const JOURNAL: readonly (readonly [unit: string, priority: number, message: string])[] = [
  ['receiverd.service', 6, 'receiverd 0.1.0 listening on http://192.0.2.40:8080'],
  ['uxplay.service', 6, 'Initialized server socket(s)'],
  ['uxplay.service', 6, 'connection request from Ann’s iPhone (iPhone15,2) with deviceID = AA:BB:CC:00:00:01'],
  ['receiverd.service', 5, 'session "Ann’s iPhone" (airplay) was let in by a token of panel-4'],
  ['weston.service', 4, 'warning: atomic: couldn’t commit new state: Device or resource busy'],
  ['receiverd.service', 4, '192.0.2.99: refused a credential: unknown key'],
  ['uxplay.service', 3, 'GStreamer error: v4l2h264dec0: Failed to process frame <img src=x onerror=alert(1)>'],
  ['receiverd.service', 5, '192.0.2.7 (the API key) changed airplay'],
]

function record([unit, priority, message]: (typeof JOURNAL)[number], at: number): string {
  return JSON.stringify({
    __REALTIME_TIMESTAMP: `${Date.parse('2026-11-21T20:00:00Z') + at * 47_000}000`,
    _SYSTEMD_UNIT: unit,
    PRIORITY: String(priority),
    MESSAGE: message,
  })
}

/** Waits for a number of sessions. */
export function sessionsOf(
  service: TestService,
  count: number,
): Promise<readonly { id: string; name: string; state: string }[]> {
  return eventually(async () => {
    const { sessions } = (await (await service.fetch('/sessions')).json()) as {
      sessions: { id: string; name: string; state: string }[]
    }
    return sessions.length === count && sessions
  })
}

/** One device mirrors, and two wait. */
export async function showSessions({ ask, service }: PageDevice): Promise<void> {
  await ask('Ann’s iPhone', { protocol: 'airplay', model: 'iPhone15,2', address: '192.0.2.7' })
  await ask('Meeting room laptop', { model: 'ThinkPad X1', address: '192.0.2.31' })
  await ask('Pixel 9')
  const [first] = await sessionsOf(service, 3)
  await service.fetch(`/sessions/${first?.id}/admit`, { method: 'POST' })
}
