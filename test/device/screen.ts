/** The screen of a booted device, read as a stranger would: by OCR, and by a reader of QR codes. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import type { Machine } from './machine.ts'

export const SCREEN_MS = 180_000
/** In pixels. At the size of the screen, OCR reads a PIN's 5 as 59 or 39: its digits are ten times as high as print. */
const PIN_WIDTH = 360
/**
 * At the size of the screen, OCR misreads one name of random digits in 250, and at this size a different one: aa7fec as aa/fec,
 * 1631ee as 1631lee.
 */
const NAME_WIDTH = 640

export class Screen {
  readonly #device: Machine
  readonly #folder: string

  /** @param folder Where the pictures are kept for people to look at. */
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

  /** The text on the screen. */
  async text(name: string): Promise<string> {
    return ocr(await this.shot(name))
  }

  /** The PIN to enter on a device; undefined while the screen shows none. */
  async pin(name: string): Promise<string | undefined> {
    const path = await this.shot(name)
    if (!ocr(path).includes('enter this code')) return undefined
    return /\b\d{4}\b/.exec(ocr(scaled(path, PIN_WIDTH)))?.[0]
  }

  /** Waits until a text can be read on the screen. The picture of the last look is kept under `name`. */
  async shows(name: string, text: string): Promise<void> {
    let seen = ''
    await eventually(async () => {
      const path = await this.shot(name)
      seen = ocr(path) + ocr(scaled(path, NAME_WIDTH))
      return alike(seen).includes(alike(text))
    }, SCREEN_MS).catch(() => {
      throw new Error(`"${text}" is not on the screen, but: ${seen}`)
    })
  }

  /** Whether a picture has a text, and neither another one nor a QR code. */
  isOnly(path: string, text: string, other: string): boolean {
    const seen = alike(ocr(path) + ocr(scaled(path, NAME_WIDTH)))
    return seen.includes(alike(text)) && !seen.includes(alike(other)) && qrCodeIn(path) === ''
  }

  /** Waits until the QR code on the screen is this one. */
  async showsCode(name: string, link: string): Promise<void> {
    let seen = ''
    await eventually(async () => {
      seen = qrCodeIn(await this.shot(name))
      return seen === link
    }, SCREEN_MS).catch(() => {
      throw new Error(`the QR code is not ${link}, but: ${seen}`)
    })
  }
}

/**
 * All text of a picture, anywhere in it. It uses one thread: several would take three times the processor time, from the
 * emulator.
 */
function ocr(path: string): string {
  const env = { ...process.env, OMP_THREAD_LIMIT: '1' }
  return execFileSync('tesseract', [path, '-', '--psm', '11'], { encoding: 'utf8', stdio: 'pipe', env })
}

/** Scales a picture. @returns the path of the copy, in the same folder. */
function scaled(path: string, width: number): string {
  const [svg, copy] = [`${path}.svg`, `${path}-${width}.png`]
  const size = `width="${width}" height="${Math.round((width * 9) / 16)}"`
  const image = `<image width="100%" height="100%" href="${basename(path)}"/>`
  writeFileSync(svg, `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${image}</svg>`)
  execFileSync('rsvg-convert', ['--output', copy, svg])
  return copy
}

/** Replaces characters that look alike in a name of random digits. */
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
