import t from 'tap'
import * as Type from 'typebox/type'
import type { Resource, Shared } from '../../src/api/resource.ts'
import { Topic } from '../../src/events/topic.ts'
import { json } from '../../src/http/reply.ts'
import { startTestService } from '../support/service.ts'

/** A lamp that moderators follow: all that a second resource takes. */
class Lamp implements Resource {
  readonly topic: Topic
  readonly eventsPath = '/lamp/events'
  readonly events = { 'lamp.changed': Type.Object({ level: Type.Integer() }) }
  readonly routes = [
    {
      method: 'GET',
      path: '/lamp',
      needs: 'moderator:r',
      handle: () => json(Buffer.from(this.json), ['ETag', `"${this.topic.latestId}"`]),
      docs: { operationId: 'getLamp', summary: 'Read the lamp', answers: { 200: { description: 'Its level.' } } },
    },
  ] as const
  #level = 0

  constructor({ ring }: Shared) {
    this.topic = new Topic({ name: 'lamp', grant: 'moderator:r', snapshot: () => this.json, ...ring })
  }

  get json(): string {
    return JSON.stringify({ level: this.#level })
  }

  set level(level: number) {
    this.#level = level
    this.topic.changed(this.json)
  }

  async start(): Promise<void> {}
  async stop(): Promise<void> {}
}

t.test('a second topic has events, ids and grants of its own', async t => {
  let lamp: Lamp | undefined
  const add = (shared: Shared) => {
    lamp = new Lamp(shared)
    return lamp
  }
  const service = await startTestService(t, { env: { RECEIVERD_EVENTS: '4' }, add })
  if (!lamp) throw new Error('no lamp')
  const [stream, system] = [await service.stream('/lamp/events'), await service.stream()]
  const { etag } = await service.system()
  for (let level = 1; level <= 8; level++) {
    lamp.level = level
    t.match(await stream.event(), { event: 'lamp.changed', data: { level } })
  }

  t.equal((await service.patch({ deviceName: 'Lobby' }, { 'If-Match': etag })).status, 200, 'the ETag of /system holds')
  const event = await system.event()
  t.match(event, { event: 'system.changed', data: { deviceName: 'Lobby' } }, 'and so does its ring')
  const poll = (path: string, id: string | undefined) =>
    service.fetch(`${path}?initialEventId=${id}`).then(a => a.json())
  t.match(await poll('/events', etag.slice(1, -1)), [{ data: { deviceName: 'Lobby' } }])
  t.match(await poll('/lamp/events', event?.id), [
    { event: 'events.resync' },
    { event: 'lamp.changed', data: { level: 8 } },
  ])

  const [admin, moderator] = [service.token(['admin:rw']), service.token(['moderator:rw'])]
  for (const path of ['/lamp', '/lamp/events', '/system', '/events']) {
    const isLamp = path.startsWith('/lamp')
    t.equal((await service.fetchAs(admin, path)).status, isLamp ? 403 : 200, `admin at ${path}`)
    t.equal((await service.fetchAs(moderator, path)).status, isLamp ? 200 : 403, `moderator at ${path}`)
  }
})

t.test('readers of all topics share the bounds, and end with their credential', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_STREAMS: '2' }, add: shared => new Lamp(shared) })
  const streams = [await service.stream('/lamp/events'), await service.stream()]
  t.equal((await service.stream()).status, 503)
  t.equal((await service.stream('/lamp/events')).status, 503)
  await service.fetch('/api-key', { method: 'POST' })
  for (const stream of streams)
    t.match(await stream.event(), { event: 'events.closed', data: { reason: 'key replaced' } })
})
