import type { System } from './os/system.ts'
import type { Setting } from './setting.ts'
import { airplay } from './settings/airplay.ts'
import { audio } from './settings/audio.ts'
import { deviceName } from './settings/device-name.ts'
import { display } from './settings/display/display.ts'
import { firmware } from './settings/firmware.ts'
import { hardware } from './settings/hardware.ts'
import { hostname } from './settings/hostname.ts'
import { locale } from './settings/locale.ts'
import { moderation } from './settings/moderation.ts'
import { network } from './settings/network/network.ts'
import { ntp } from './settings/ntp.ts'
import { ssh } from './settings/ssh.ts'
import { timezone } from './settings/timezone.ts'

/** Every setting, in the order in which changes are applied and the configuration is shown. */
export function registry(system: System): readonly Setting[] {
  const host = hostname(system)
  const device = deviceName(system, host)
  return [
    host,
    device,
    timezone(system),
    locale(system),
    ntp(system),
    network(system),
    display(system),
    audio(system),
    moderation(system),
    airplay(system, { hostname: host, deviceName: device }),
    ssh(system),
    firmware(system),
    hardware(system),
  ]
}
