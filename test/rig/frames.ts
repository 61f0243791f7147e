/** What a rig's UxPlay shows: it keeps the newest pictures in files of raw RGB. */
import type { Rig } from './rig.ts'

const FOLDER = '/var/lib/uxplay'
/** Of the size that the client sends. */
const WIDTH = 320
const BYTES_PER_PIXEL = 3

/** The end of UxPlay's pipeline, in the place of a screen (gst-launch-1.0(1)); for `vs` in its startup file. */
export const PICTURES = `videoconvert ! video/x-raw,format=RGB ! multifilesink location=${FOLDER}/%d.rgb max-files=4`

export interface Picture {
  readonly height: number
  /** Red, green and blue, 0 to 255. */
  color(x: number, y: number): readonly number[]
}

/** The newest picture that was written to its end; undefined where there is none. */
export async function lastPicture(rig: Rig): Promise<Picture | undefined> {
  // The newest of all is still being written.
  const newest = `cd ${FOLDER} && ls -t | grep '\\.rgb$' | sed -n 2p | xargs --no-run-if-empty base64 --wrap=0`
  const bytes = Buffer.from(await rig.run(['sh', '-c', newest]), 'base64')
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
