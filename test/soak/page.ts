/** The requests of the Device Management page, as src/page/device.ts makes them, without a browser. */
import { eventually } from '../support/eventually.ts'
import type { Follower } from './follower.ts'
import type { SoakedService } from './service.ts'

const READS = [
  '/openapi.json',
  '/credential',
  '/system',
  '/sessions',
  '/system/choices',
  '/status',
  '/issuers',
] as const

/** Loads the page with all that it needs, signs in, and reads every view. */
export async function loadPage(service: SoakedService): Promise<void> {
  const html = await (await read(service, '/', { 'Accept-Encoding': 'identity' })).text()
  const assets = [...html.matchAll(/(?:src|href)="(\/?assets\/[^"]+)"/g)].map(
    ([, path = '']) => `/${path.replace(/^\//, '')}`,
  )
  if (assets.length < 2) throw new Error(`the page needs only ${assets}`)
  for (const path of assets) await read(service, path, { 'Accept-Encoding': 'gzip' })
  for (const path of READS) {
    const answer = await service.fetch(path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    const etag = answer.headers.get('etag')
    if (etag === null) continue
    const again = await service.fetch(path, { headers: { 'If-None-Match': etag } })
    if (![200, 304].includes(again.status)) throw new Error(`${path} with its ETag: ${again.status}`)
  }
}

async function read(service: SoakedService, path: string, headers: Record<string, string>): Promise<Response> {
  const answer = await service.ask(path, { headers })
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status}`)
  return answer
}

/** A page that is left open for the whole of the soak: it follows both topics, and comes back whenever it is put out. */
export class OpenPage {
  readonly #followers: readonly Follower[]

  /** @param followers Of both topics. */
  constructor(followers: readonly Follower[]) {
    this.#followers = followers
  }

  get streams(): number {
    return this.#followers.length
  }

  async isOpen(): Promise<void> {
    for (const follower of this.#followers)
      await eventually(async () => {
        follower.check()
        if (!follower.isThere) await follower.come('stream')
        return follower.isThere
      })
  }
}
