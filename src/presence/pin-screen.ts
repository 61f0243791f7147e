import type { ShowPin } from '../../hal/engine.ts'
import type { Screen } from '../../hal/os/screen.ts'
import type { Log } from '../log.ts'
import { follow } from '../system/follow.ts'
import { pinPicture } from './picture.ts'

/** Milliseconds until a PIN is shown or hidden again after that failed: somebody is waiting to type it. */
const RETRY_MS = 2_000

/** Draws the PIN that a device asks for over everything else. */
export function pinScreen(screen: Pick<Screen, 'showPin' | 'hidePin'>, log: Log): ShowPin {
  let shown: string | undefined
  let refresh: (() => void) | undefined
  return pin => {
    shown = pin
    if (refresh) return refresh()
    follow({
      // An object, because a PIN from before a crash must be hidden, too.
      derive: () => ({ pin: shown }),
      apply: ({ pin }) => (pin === undefined ? screen.hidePin() : screen.showPin(pinPicture(pin))),
      onOther: again => {
        refresh = again
      },
      failure: 'the screen may lack a PIN, or still show one',
      retryMs: RETRY_MS,
      log,
    })
  }
}
