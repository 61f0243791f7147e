import { reasonOf } from '../../hal/errors.ts'
import type { Announced } from '../../hal/format/avahi-service.ts'
import type { Announcement } from '../../hal/os/announcement.ts'
import { BASE_PATH } from '../http/router.ts'
import type { Log } from '../log.ts'
import { follow } from '../system/follow.ts'
import type { SystemStore } from '../system/store.ts'
import type { Tls } from './tls.ts'

/** The DNS-SD type that `receiverd discover` looks for. */
export const SERVICE_TYPE = '_receiverd._tcp'

export interface AnnounceOptions {
  readonly announcement: Announcement
  readonly configuration: SystemStore
  /** The port of the API. */
  readonly port: number
  readonly hasPage: boolean
  /** The TLS server on that port; undefined without one. */
  readonly tls: Tls | undefined
  readonly log: Log
}

/** Announces the API by DNS-SD, under the device's name, and the page for browsers that list such services. */
export async function startAnnouncing(options: AnnounceOptions): Promise<void> {
  const { announcement, configuration, tls, log } = options
  if (!(await announcement.isPossible())) return
  await announcement.recover()
  follow({
    configuration,
    onOther: tls?.onChanged,
    derive: () => announced(options),
    // Without a certificate, nothing answers yet.
    apply: async what => what && announcement.set(what),
    failure: 'the device could not be announced on the network',
    log,
  })
}

/** Removes the announcement that an earlier start left. */
export async function stopAnnouncing({
  announcement,
  log,
}: Pick<AnnounceOptions, 'announcement' | 'log'>): Promise<void> {
  if (!(await announcement.isPossible())) return
  await announcement.recover()
  await announcement
    .remove()
    .catch(error => log('warning', `the announcement on the network could not be removed: ${reasonOf(error)}`))
}

function announced({ configuration, port, hasPage, tls }: AnnounceOptions): Announced | undefined {
  if (tls && !tls.certificate) return undefined
  const { pin = '' } = tls?.certificate ?? {}
  const { model = '', serial = '' } = configuration.value('hardware') ?? {}
  const groups = configuration.value('groups') ?? []
  return {
    name: configuration.value('deviceName') ?? '',
    services: [
      { type: SERVICE_TYPE, port, txt: { api: 'v1', path: BASE_PATH, model, serial, pin, groups } },
      ...(hasPage ? [{ type: tls ? '_https._tcp' : '_http._tcp', port, txt: { path: '/' } }] : []),
    ],
  }
}
