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
          'Address of a firmware bundle, https:// or http://. Its query is neither logged nor shown. Defaults to the address ' +
          'of the channel.',
        maxLength: MAX_URL,
      }),
    ),
  },
  { $id: 'DownloadRequest', additionalProperties: false },
)

const BEGUN = acceptedDocs('The operation has started.')

/** Routes that make the device fetch a bundle by itself, or look for one. */
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
        // The key may have been replaced while the body was being received.
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
          'The update state reports the progress and the outcome. The device resumes an interrupted download by itself, for at ' +
          'most 6 hours. The address must not lead to a loopback or link-local address.',
        answers: {
          202: BEGUN,
          409: { description: 'Another update operation is in progress, or no channel is set and `url` is missing.' },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The body was rejected.' },
        },
      },
    },
    {
      method: 'POST',
      path: '/update/check',
      needs: 'admin:w',
      handle: async () => {
        const url = await channel.url()
        // The update state reports the result.
        void channel.check(url)
        return accepted(update)
      },
      docs: {
        operationId: 'checkUpdate',
        summary: 'Find out which version the channel has',
        description:
          'Reads only the signed manifest of the bundle. The update state reports the result as `available`, or as an `error`.',
        answers: { 202: BEGUN, 409: { description: 'No channel is set.' } },
      },
    },
  ]
}
