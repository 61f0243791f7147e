import { nearestName } from '../../hal/format/uxplayrc.ts'
import type { Certificate } from '../../hal/os/certificate.ts'
import type { Screen } from '../../hal/os/screen.ts'
import { pageAt } from '../http/address.ts'
import type { Log } from '../log.ts'
import { addressesOf } from '../system/addresses.ts'
import { follow } from '../system/follow.ts'
import type { SystemStore } from '../system/store.ts'
import { type IdleText, idlePicture } from './picture.ts'
import type { Tls } from './tls.ts'

export interface IdleScreenOptions {
  readonly screen: Screen
  readonly configuration: SystemStore
  /** The port of the API; undefined if clients cannot reach it, or not at an address that is known here. */
  readonly port: number | undefined
  /** Whether the API's address leads a browser to the page. */
  readonly hasPage: boolean
  /** The TLS server on that port; undefined without one. */
  readonly tls: Tls | undefined
  /** The API key, while the screen should show a QR code that signs in with it. */
  readonly setupKey: () => string | undefined
  /** Registers a function to call whenever that key changes. */
  readonly onSetupKey: (changed: () => void) => void
  readonly log: Log
}

/** Draws the screen that is shown while nobody mirrors, and redraws it when the configuration changes. */
export async function startIdleScreen(options: IdleScreenOptions): Promise<void> {
  const { screen, configuration, tls, onSetupKey, log } = options
  if (!(await screen.isInstalled())) return
  follow({
    configuration,
    onOther: redraw => {
      tls?.onChanged(redraw)
      onSetupKey(redraw)
    },
    derive: () => idleText(options),
    apply: text => screen.showIdle(idlePicture(text)),
    failure: 'the idle screen could not be drawn',
    log,
  })
}

function idleText({ configuration, port, hasPage, tls, setupKey }: IdleScreenOptions): IdleText {
  const name = configuration.value('deviceName') ?? ''
  const host = hostOf(configuration, tls?.certificate)
  // Without a certificate, nothing answers yet.
  const isAnswering = port !== undefined && (!tls || tls.certificate)
  const url = isAnswering && host ? pageAt(host, port, tls !== undefined) : undefined
  const key = setupKey()
  return {
    name,
    steps: stepsOf(configuration, name),
    url,
    // The fragment is not sent to a server, nor does anybody have to type it.
    link: url && key ? `${url}#key=${key}&setup` : hasPage ? url : undefined,
    certificate: knownBy(tls?.certificate, key !== undefined),
    invitation: port === undefined ? '' : invitation(host, url, key, hasPage),
  }
}

/**
 * The host at which a browser finds the page: an address, which needs no name server, unless the certificate covers only the
 * host name. Undefined while the device has no address.
 */
function hostOf(configuration: SystemStore, certificate: Certificate | undefined): string | undefined {
  const addresses = addressesOf(configuration)
  const hostname = configuration.value('hostname') ?? ''
  if (addresses.length === 0 || !certificate) return addresses[0]
  return [...addresses, hostname].find(certificate.covers) ?? addresses[0]
}

function invitation(
  host: string | undefined,
  url: string | undefined,
  key: string | undefined,
  hasPage: boolean,
): string {
  if (host === undefined) return 'This device has no network address yet.'
  if (url === undefined) return 'This device is starting.'
  if (key) return 'Scan to set up this device'
  return hasPage ? 'Manage this device' : 'The address of this device'
}

/**
 * How to recognize the certificate: during setup, a person compares its fingerprint with the browser's; later, programs pin its
 * key.
 */
function knownBy(certificate: Certificate | undefined, isSetup: boolean): readonly string[] {
  if (!certificate) return []
  const { fingerprint, pin } = certificate
  const half = fingerprint.length / 2
  return isSetup ? [`SHA-256 ${fingerprint.slice(0, half)}`, fingerprint.slice(half + 1)] : [`Pin sha256//${pin}`]
}

function stepsOf(configuration: SystemStore, deviceName: string): readonly string[] {
  const airplay = configuration.value('airplay')
  if (!airplay?.enabled) return ['Screen mirroring is switched off.']
  const moderation = configuration.value('moderation')
  return [
    'To mirror an iPhone, iPad or Mac, open Screen Mirroring',
    `and choose ${airplay.name || nearestName(deviceName)}.`,
    ...(moderation?.approval === 'moderator' ? ['Then wait until you are let in.'] : []),
  ]
}
