import { reasonOf } from '../hal/errors.ts'
import { isTemporary } from '../hal/os/data-partition.ts'
import { Led } from '../hal/os/led.ts'
import { Screen } from '../hal/os/screen.ts'
import { type Additions, createResources } from './api/resources.ts'
import { createServers } from './api/servers.ts'
import type { Surroundings } from './api/surroundings.ts'
import { ApiKeyStore } from './auth/api-key.ts'
import { Authenticator } from './auth/authenticator.ts'
import { Issuers } from './auth/issuers.ts'
import { readCredential } from './auth/key-file.ts'
import type { Config } from './config.ts'
import { Readers } from './events/readers.ts'
import { recordListening } from './listening.ts'
import { pinScreen } from './presence/pin-screen.ts'
import { createPresence } from './presence/presence.ts'
import { CardTaker } from './system/card/card.ts'

export interface Service {
  /** The URLs that the service listens on. */
  readonly addresses: readonly string[]
  /** One line for `systemctl status`. */
  readonly status: string
  /** Answers held polls, ends streams, finishes writes, and resolves once all of that is done. */
  close(): Promise<void>
}

/** Assembles the parts, and starts serving. */
export async function startService(
  config: Config,
  surroundings: Surroundings,
  additions: Additions = {},
): Promise<Service> {
  const { limits, credentialsDir, stateDir, screenKey, card: folder } = config
  const { system, clock, log, builtAt } = surroundings
  const state = system.elsewhere(stateDir)
  const passed = async () => (credentialsDir ? readCredential(credentialsDir) : undefined)
  const keys = await ApiKeyStore.open(state, { log, passed, marksUnused: screenKey })
  const onFirstUse = () => keys.used()
  const issuers = new Issuers({
    system,
    log,
    recordOriginal: (original, isNeedless) => resources.originals.add([original], isNeedless),
  })
  const device = () => ({
    serial: resources.configuration.value('hardware')?.serial,
    hostname: resources.configuration.value('hostname'),
    groups: resources.configuration.value('groups') ?? [],
  })
  const authenticator = new Authenticator(keys.current, {
    clock,
    log,
    builtAt,
    leewayS: limits.leewayS,
    onFirstUse,
    issuers,
    device,
  })
  const readers = new Readers({
    limits,
    refusalNow: (credential, now) => authenticator.refusalNow(credential, now),
    clock,
  })
  keys.onReplaced(key => {
    authenticator.replaceKey(key)
    readers.endRefused()
  })

  if ((await state.space().catch(() => undefined))?.readOnly)
    log('warning', 'the state directory is on a read-only file system: no setting can be changed')
  if (await isTemporary(system).catch(() => false))
    log(
      'error',
      'the data partition could not be mounted, or is damaged: the settings may be those of a new device, and a restart loses changes',
    )

  const parts = { ...surroundings, config, state, keys, issuers, authenticator, readers }
  const screen = new Screen(system)
  const resources = createResources({ ...parts, showPin: pinScreen(screen, log) }, additions)
  // On another root, the card is left to the device itself.
  const card = folder && system.isRunning ? new CardTaker({ system, state, folder, log }) : undefined
  await card?.waitForLink()
  await resources.start()
  await issuers.start(() => readers.endRefused())
  const { configuration, originals } = resources
  const takers = { configuration, keys, issuers, originals }
  await card?.take(takers)
  card?.follow(takers)
  const led = new Led(system)
  const presence = createPresence({ ...parts, screen, configuration, originals })
  const servers = createServers({ ...parts, resources, led, screen, tls: presence.tls })
  const addresses = await servers.listen()
  const [address = ''] = addresses
  if (system.isRunning)
    await recordListening(system, addresses, config.tlsPort).catch(error =>
      log('notice', `other commands may not find this service without --listen: ${reasonOf(error)}`),
    )
  await presence.start(address).catch(error => log('error', `the device does not show itself: ${reasonOf(error)}`))

  return {
    addresses,
    get status() {
      return `${addresses.join(', ')}, ${readers.size} streams and held polls`
    },
    async close() {
      const closed = servers.close()
      keys.stop()
      await issuers.stop()
      await led.stop()
      await resources.stop()
      await presence.stop()
      await closed
    },
  }
}
