import type { Rig } from './rig.ts'

const FOLDER = '/var/lib/uxplay'
/** Of the size that the client sends. */
const WIDTH = 320
const BYTES_PER_PIXEL = 3
/** The last one is still being written. */
const KEPT = 4

/** Where a rig's UxPlay shows its pictures: in files of raw RGB, the newest few of them. */
export const FRAMES = {
  /** What follows the decoder in UxPlay's pipeline (gst-launch-1.0(1)). */
  sink: `videoconvert ! video/x-raw,format=RGB ! multifilesink location=${FOLDER}/%d.rgb max-files=${KEPT}`,
}

/** The newest picture that was shown to its end; undefined where there is none. */
export async function lastPicture(rig: Rig): Promise<Picture | undefined> {
  const list = (await rig.run(['sh', '-c', `cd ${FOLDER} && ls -t -- *.rgb 2>/dev/null || true`])).trim().split('\n')
  const name = list[1]
  if (name === undefined) return undefined
  const text = await rig.run(['base64', '--wrap=0', `${FOLDER}/${name}`])
  return new Picture(Number.parseInt(name, 10), Buffer.from(text, 'base64'))
}

export class Picture {
  /** Counted from UxPlay's start. */
  readonly number: number
  readonly #bytes: Buffer

  constructor(number: number, bytes: Buffer) {
    this.number = number
    this.#bytes = bytes
  }

  get height(): number {
    return this.#bytes.length / WIDTH / BYTES_PER_PIXEL
  }

  /** Red, green and blue, 0 to 255. */
  color(x: number, y: number): readonly number[] {
    const at = (y * WIDTH + x) * BYTES_PER_PIXEL
    return [...this.#bytes.subarray(at, at + BYTES_PER_PIXEL)]
  }
}
