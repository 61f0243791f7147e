/** Clients of a device that outlive its restarts. */
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../../src/json.ts'
import type { Api } from '../support/api.ts'

export interface Follower {
  /** Its copy of the configuration. */
  readonly copy: () => JsonObject
  /** Resolves when it has ended. */
  readonly close: () => Promise<void>
}

/** A client as the API's README describes it. */
export async function follow(device: Api): Promise<Follower> {
  const first = await device.system()
  let { value: copy, id } = first
  let isOver = false
  let stream = await device.stream(`/events?initialEventId=${id}`)
  const going = (async () => {
    while (!isOver) {
      for (let event = await stream.event(); event; event = await stream.event()) {
        if (event.event === 'system.changed') copy = { ...copy, ...event.data }
        id = event.id ?? id
      }
      // As the stream's `retry` tells each client: not all at once.
      if (!isOver) await sleep(1_000 + Math.random() * 2_000)
      if (!isOver) stream = await device.stream('/events', { 'Last-Event-ID': id })
    }
  })()
  return {
    copy: () => copy,
    close() {
      isOver = true
      stream.close()
      return going
    },
  }
}

/** A request on a connection of its own; resolves with its status. */
export function get(device: Api, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${device.key}` }
    request(`${device.url}/api/v1${path}`, { agent: false, headers }, response => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
      .on('error', reject)
      .end()
  })
}
