import type { Static } from 'typebox/type'
import type { Engine } from './engine.ts'
import { enginesOf } from './engines/registry.ts'
import type { System } from './os/system.ts'
import type { Setting } from './setting.ts'
import { airplay } from './settings/airplay.ts'
import { audio } from './settings/audio.ts'
import { deviceName } from './settings/device-name.ts'
import { display } from './settings/display/display.ts'
import { firmware } from './settings/firmware.ts'
import { groups } from './settings/groups.ts'
import { hardware } from './settings/hardware.ts'
import { hostname } from './settings/hostname.ts'
import { locale } from './settings/locale.ts'
import { moderation } from './settings/moderation.ts'
import { network } from './settings/network/network.ts'
import { ntp } from './settings/ntp.ts'
import { ssh } from './settings/ssh.ts'
import { timezone } from './settings/timezone.ts'
import { update } from './settings/update.ts'
import { wifi } from './settings/wifi/wifi.ts'

/**
 * Returns every setting by name, in the order in which changes are applied and the configuration is shown.
 * @param isUpdated Whether the service updates the firmware of this device.
 */
export function settingsOf(system: System, engines: readonly Engine[] = enginesOf(system), isUpdated = true) {
  const host = hostname(system)
  const device = deviceName(system, host)
  return {
    hostname: host,
    deviceName: device,
    groups: groups(system),
    timezone: timezone(system),
    locale: locale(system),
    ntp: ntp(system),
    network: network(system),
    wifi: wifi(system),
    display: display(system),
    audio: audio(system),
    moderation: moderation(system, engines),
    airplay: airplay(system, { hostname: host, deviceName: device }),
    ssh: ssh(system),
    update: update(system, isUpdated),
    firmware: firmware(system),
    hardware: hardware(system),
  }
}

type Settings = ReturnType<typeof settingsOf>

/** The values of the settings, by name. */
export type Values = { readonly [Name in keyof Settings]: Static<Settings[Name]['schema']> }

/** @param engines The running engines. Defaults to new ones, which suffice for a program that only reads and writes files. */
export function registry(system: System, engines?: readonly Engine[], isUpdated?: boolean): readonly Setting[] {
  return Object.values(settingsOf(system, engines, isUpdated))
}
