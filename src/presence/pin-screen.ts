import type { ShowPin } from '../../hal/engine.ts'
import { reasonOf } from '../../hal/errors.ts'
import type { Screen } from '../../hal/os/screen.ts'
import { Serial } from '../../hal/serial.ts'
import type { Log } from '../log.ts'
import { pinPicture } from './picture.ts'

/** Draws the PIN that a device asks for over everything else. Calls are carried out one after the other. */
export function pinScreen(screen: Screen, log: Log): ShowPin {
  const queue = new Serial()
  return pin => {
    queue
      .run(() => (pin === undefined ? screen.hidePin() : screen.showPin(pinPicture(pin))))
      .catch(error =>
        log('warning', `the screen could not ${pin === undefined ? 'hide' : 'show'} a PIN: ${reasonOf(error)}`),
      )
  }
}
