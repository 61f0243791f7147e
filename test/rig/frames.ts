/** The pictures that a rig's UxPlay shows: it writes the latest few to files, as raw RGB. */
import type { Rig } from './rig.ts'

const FOLDER = '/var/lib/uxplay'
/** The client's default size. */
const WIDTH = 320
const BYTES_PER_PIXEL = 3

/** A value for `vs` in UxPlay's startup file: the end of its pipeline, in place of a screen (gst-launch-1.0(1)). */
export const PICTURES = `videoconvert ! video/x-raw,format=RGB ! multifilesink location=${FOLDER}/%d.rgb max-files=4`

export interface Picture {
  readonly height: number
  /** Red, green and blue, 0 to 255. */
  color(x: number, y: number): readonly number[]
}

/** The latest picture that is complete. Undefined if there is none, or if newer ones have just replaced it. */
export async function lastPicture(rig: Rig): Promise<Picture | undefined> {
  // The very latest may still be being written.
  const newest = `cd ${FOLDER} && name=$(ls -t | grep '\\.rgb$' | sed -n 2p)`
  const read = `{ base64 --wrap=0 "$name" || [ ! -f "$name" ]; }`
  const bytes = Buffer.from(await rig.run(['sh', '-c', `${newest} && ${read}`]), 'base64')
  if (bytes.length === 0) return undefined
  return {
    height: bytes.length / WIDTH / BYTES_PER_PIXEL,
    color(x, y) {
      const at = (y * WIDTH + x) * BYTES_PER_PIXEL
      return [...bytes.subarray(at, at + BYTES_PER_PIXEL)]
    },
  }
}

export async function forgetPictures(rig: Rig): Promise<void> {
  await rig.run(['sh', '-c', `rm -f ${FOLDER}/*.rgb`])
}
