import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { realRoot } from '../../hal/files/root.ts'
import { DownloadError, type ManifestRequest } from '../../hal/os/downloads.ts'
import { System } from '../../hal/os/system.ts'
import { Channel } from '../../src/update/channel.ts'
import { temporaryFolder } from '../support/folder.ts'

const CONFIGURATION = '[system]\ncompatible=receiver-virt\n[keyring]\npath=keyring.pem\n'
const manifest = (version: string, compatible = 'receiver-virt') =>
  `[update]\ncompatible=${compatible}\nversion=${version}\n`

/** A channel whose answers come when the test says so. */
function channel(t: Test) {
  const root = realRoot(temporaryFolder(t))
  mkdirSync(join(root, 'etc/rauc'), { recursive: true })
  writeFileSync(join(root, 'etc/rauc/system.conf'), CONFIGURATION)
  const device = { url: 'https://a/?1' }
  const asked: (ManifestRequest & { answer: (text: string) => void; fail: (reason: string) => void })[] = []
  const told: string[] = []
  let wake = () => {}
  const subject = new Channel({
    system: new System(root, { running: true, run: async () => '' }),
    downloads: {
      manifest: request =>
        new Promise((answer, reject) => {
          asked.push({ ...request, answer, fail: reason => reject(new DownloadError(reason)) })
          wake()
        }),
    },
    url: async () => device.url,
    found: available => told.push(`found ${available?.version}`),
    failed: ({ kind }) => told.push(`failed ${kind}`),
    changed: () => told.push('changed'),
    clock: { now: () => 0 },
    log: () => undefined,
  })
  /** The request that comes next. */
  const next = async () => {
    while (asked.length === 0) await new Promise<void>(resolve => (wake = resolve))
    const [request] = asked.splice(0, 1)
    if (!request) throw new Error('nothing was asked')
    return request
  }
  return { subject, device, told, asked, next }
}

t.test('one check for all who ask, with what RAUC is told of signatures', async t => {
  const { subject, device, told, asked, next } = channel(t)
  const checks = [subject.check(device.url), subject.check(device.url)]
  const { answer, url, keyring, purpose } = await next()
  t.match([url, keyring, purpose], [device.url, '/etc/rauc/keyring.pem', 'smimesign'])
  answer(manifest('1.1.0'))
  t.strictSame(await Promise.all(checks), ['1.1.0', '1.1.0'])
  t.strictSame([told, asked.length], [['found 1.1.0'], 0])
  for (const [text, kind] of [
    [manifest('1.1.0', 'receiver-pi'), 'bundle-compatible'],
    [manifest('newest'), 'bundle-damaged'],
    ['', 'bundle-compatible'],
  ] as const) {
    told.length = 0
    const check = subject.check(device.url)
    ;(await next()).answer(text)
    t.equal(await check, undefined)
    t.strictSame(told, [`failed ${kind}`])
  }
})

t.test('the answer of another channel is not told of this one', async t => {
  const { subject, device, told, next } = channel(t)
  const outcomes = [
    (request: Awaited<ReturnType<typeof next>>) => request.answer(manifest('1.1.0')),
    (request: Awaited<ReturnType<typeof next>>) => request.fail('busy'),
  ]
  for (const end of outcomes) {
    device.url = 'https://a/?1'
    const before = subject.check(device.url)
    const late = await next()
    // The query alone, which no configuration shows.
    device.url = 'https://a/?2'
    await subject.reconsider()
    const after = subject.check(device.url)
    const request = await next()
    t.equal(request.url, device.url, 'it is asked itself')
    end(late)
    t.equal(await before, undefined)
    t.strictSame(told.splice(0), [])
    request.answer(manifest('1.2.0'))
    t.equal(await after, '1.2.0')
    t.strictSame(told.splice(0), ['found 1.2.0'])
    await subject.reconsider()
    t.strictSame(told, [], 'nothing has changed')
    device.url = ''
    await subject.reconsider()
    await subject.reconsider()
    t.strictSame(told.splice(0), ['changed'])
  }
})
