/** The bundle on every Node that it is meant for: a short life, from the start to SIGTERM. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { run, startReceiver } from './support.ts'

/** Of the two packages of a version, the one for this machine is installed. */
const VERSIONS: Readonly<Record<string, readonly string[]>> = {
  22: ['node-22', 'node-22-arm64'],
  24: ['node-24', 'node-24-arm64'],
}

function nodeOf(packages: readonly string[]): string | undefined {
  return packages
    .map(name => fileURLToPath(new URL(`node_modules/${name}/bin/node`, import.meta.url)))
    .find(path => existsSync(path))
}

async function live(t: Test, node: string): Promise<void> {
  const receiver = await startReceiver(t, { node })
  const before = await receiver.system()
  t.equal(before.value.deviceName, 'Meeting Room 4')

  const stream = await receiver.fetch('/events', { headers: { Accept: 'text/event-stream' } })
  t.equal(stream.headers.get('content-type'), 'text/event-stream')
  let text = ''
  const ended = (async () => {
    const utf8 = new TextDecoder()
    for await (const chunk of stream.body ?? []) text += utf8.decode(chunk, { stream: true })
  })()
  const held = receiver.fetch('/events', { headers: { 'If-None-Match': before.etag, Prefer: 'wait=60' } })

  const patched = await receiver.patch({ deviceName: 'Studio', ntp: { servers: ['time.example'] } })
  t.equal(patched.status, 200)
  const etag = patched.headers.get('etag') ?? ''
  await eventually(() => text.includes('"deviceName":"Studio"'))
  t.match(text, `id: ${etag.replaceAll('"', '')}\nevent: system.changed\ndata: {"deviceName":"Studio","ntp":`)
  const answer = await held
  t.equal(answer.headers.get('etag'), etag, 'the poll that was held has it too')
  t.match(await answer.json(), [{ event: 'system.changed', data: { deviceName: 'Studio' } }])
  t.equal((await receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=0' } })).status, 304)

  const rotated = await receiver.fetch('/api-key', { method: 'POST' })
  t.same(await rotated.json(), { apiKey: receiver.key })
  await ended
  t.ok(text.endsWith(`\n\nevent: events.closed\ndata: {"reason":"key replaced"}\n\n`), 'the rotation ends the stream')

  const later = receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=60' } })
  await receiver.system()
  t.equal(await receiver.stop(), 0)
  t.equal((await later).status, 304, 'a held poll is answered at the end')
}

t.jobs = 3
t.test(`this Node, ${process.versions.node}`, t => live(t, process.execPath))
for (const [version, packages] of Object.entries(VERSIONS)) {
  const node = nodeOf(packages)
  const skip =
    node === undefined && `there is no npm package with Node ${version} for ${process.platform} ${process.arch}`
  t.test(`Node ${version}`, { skip }, async t => {
    const { stdout } = await run(node ?? '', ['--version'])
    t.match(stdout, new RegExp(`^v${version}\\.`))
    await live(t, node ?? '')
  })
}
