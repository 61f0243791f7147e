import * as Type from 'typebox/type'
import { MAX_URL, whyNoBundleUrl } from '../../hal/format/bundle-url.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Route } from '../http/route.ts'
import type { Log } from '../log.ts'
import type { Channel } from '../update/channel.ts'
import type { Fetcher } from '../update/fetcher.ts'
import type { Update } from '../update/update.ts'
import { refusal } from '../validate.ts'
import { callerOf } from './caller.ts'
import { accepted, acceptedDocs } from './update.ts'

export interface DownloadRoutesOptions {
  readonly update: Update
  readonly fetcher: Fetcher
  readonly channel: Channel
  readonly authenticator: Authenticator
  readonly log: Log
}

const DownloadRequest = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        description:
          'Address of a firmware bundle, https:// or http://. Its query is neither logged nor shown. By default that of the ' +
          'channel.',
        maxLength: MAX_URL,
      }),
    ),
  },
  { $id: 'DownloadRequest', additionalProperties: false },
)

const BEGUN = acceptedDocs('It has begun.')

/** Bundles that the device fetches by itself. */
export function downloadRoutes({
  update,
  fetcher,
  channel,
  authenticator,
  log,
}: DownloadRoutesOptions): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/update/download',
      needs: 'admin:w',
      body: { accepts: ['application/json'], schema: DownloadRequest, isOptional: true },
      handle: async (request, credential) => {
        // The key may have been replaced while the body came in.
        authenticator.recheck(credential)
        const { url = await channel.url() } = (request.body ?? {}) as Type.Static<typeof DownloadRequest>
        const why = whyNoBundleUrl(url)
        if (why !== undefined) throw refusal('invalid-body', [{ pointer: '/url', detail: why }])
        fetcher.begin(url)
        log('notice', `${callerOf(request, credential)} began the download of a bundle`)
        return accepted(update)
      },
      docs: {
        operationId: 'downloadUpdate',
        summary: 'Download a firmware bundle',
        description:
          'The state says how far it is, and how it ended. It goes on by itself where it breaks off, for 6 hours at most. ' +
          'The address leads to no loopback or link-local address.',
        answers: {
          202: BEGUN,
          409: { description: 'Something else is being done, or there is no channel and no `url`.' },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The body is refused.' },
        },
      },
    },
    {
      method: 'POST',
      path: '/update/check',
      needs: 'admin:w',
      handle: async () => {
        const url = await channel.url()
        // The state tells its result.
        void channel.check(url)
        return accepted(update)
      },
      docs: {
        operationId: 'checkUpdate',
        summary: 'Find out which version the channel has',
        description:
          'Only the signed manifest of its bundle is read. The state has the result as `available`, or an `error`.',
        answers: { 202: BEGUN, 409: { description: 'No channel is set.' } },
      },
    },
  ]
}
