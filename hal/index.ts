import { airplay } from './airplay.ts'
import { audio } from './audio.ts'
import { deviceName } from './device-name.ts'
import { display } from './display.ts'
import { firmware } from './firmware.ts'
import { hardware } from './hardware.ts'
import { hostname } from './hostname.ts'
import { locale } from './locale.ts'
import { network } from './network.ts'
import { ntp } from './ntp.ts'
import type { Setting } from './setting.ts'
import type { System } from './system.ts'
import { timezone } from './timezone.ts'

/** Every setting, in the order in which a change is applied and the configuration is shown. */
export function registry(system: System): readonly Setting[] {
  return [hostname, deviceName, timezone, locale, ntp, network, display, audio, airplay, firmware, hardware].map(
    setting => setting(system),
  )
}
