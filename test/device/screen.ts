/** What is on the screen of a booted device, read as by a stranger: OCR, and a reader of QR codes. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import type { Machine } from './machine.ts'

export const SCREEN_MS = 180_000

export class Screen {
  readonly #device: Machine
  readonly #folder: string

  /** @param folder where the pictures are kept, to be looked at. */
  constructor(device: Machine, folder: string) {
    mkdirSync(folder, { recursive: true })
    this.#device = device
    this.#folder = folder
  }

  /** Returns the path of the picture. */
  async shot(name: string, format: 'png' | 'ppm' = 'png'): Promise<string> {
    const path = join(this.#folder, `${name}.${format}`)
    await this.#device.screenshot(path)
    return path
  }

  /** What can be read on the screen. */
  async text(name: string): Promise<string> {
    return execFileSync('tesseract', [await this.shot(name), '-', '--psm', '11'], { encoding: 'utf8', stdio: 'pipe' })
  }

  /** Waits until a text can be read on the screen. The picture of the last look is kept under `name`. */
  async shows(name: string, text: string): Promise<void> {
    let seen = ''
    await eventually(async () => {
      seen = await this.text(name)
      return alike(seen).includes(alike(text))
    }, SCREEN_MS).catch(() => {
      throw new Error(`"${text}" is not on the screen, but: ${seen}`)
    })
  }
}

/** Some characters look alike, as in a name of random digits. */
function alike(text: string): string {
  return text.replace(/[oO]/g, '0').replace(/[lI|]/g, '1')
}

/** The text of the QR code in a picture; empty if there is none. */
export function qrCodeIn(path: string): string {
  try {
    return execFileSync('zbarimg', ['--quiet', '--raw', path], { encoding: 'utf8', stdio: 'pipe' }).trim()
  } catch {
    return ''
  }
}
