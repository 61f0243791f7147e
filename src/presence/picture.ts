/** Pictures for the screen of the device, as SVG. The program that shows them scales them. */
import { xmlText } from '../../hal/format/xml.ts'
import { qrPath } from '../qr/qr-path.ts'

const WIDTH = 1920
const HEIGHT = 1080
const MARGIN = 130
const QR_SIZE = 380
/** Limit on a name in characters: a setting may allow more than can be read from a distance. */
const MAX_NAME = 80
/** The greatest widths of characters, as parts of the font size: of letters, and of square characters such as Chinese ones. */
const LETTER_WIDTH = 0.66
const SQUARE_WIDTH = 1.05
const FIRST_SQUARE = 0x2e80
/** Characters that XML does not allow, or that would reorder the text. */
const UNSHOWN = /[\p{Cc}\p{Cs}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/gu

export interface IdleText {
  readonly name: string
  /** How to mirror, one line each. */
  readonly steps: readonly string[]
  /** Where the device is managed; undefined while it has no address. */
  readonly url: string | undefined
  /** The contents of the QR code: the URL, possibly with a fragment. */
  readonly link: string | undefined
  /** Text before the URL, or in its place. */
  readonly invitation: string
  /** How to recognize the certificate at the URL, in at most two lines; none without TLS. */
  readonly certificate: readonly string[]
}

/** The picture while nobody mirrors: the name of the device, and how to use it. */
export function idlePicture({ name, steps, url, link, invitation, certificate }: IdleText): string {
  const lines = steps.map((step, row) =>
    text(step, MARGIN, 500 + row * 84, fitting(step, 54, WIDTH - 2 * MARGIN), '#c9d3e0'),
  )
  const beside = WIDTH - QR_SIZE - 3 * MARGIN
  const where = url === undefined ? [] : [text(url, MARGIN, 950, fitting(url, 54, beside), '#fff')]
  const known = certificate.map((line, row) =>
    text(line, MARGIN, 1009 + row * 40, fitting(line, 32, beside), '#8fa1b8'),
  )
  return picture([
    title(name, 330, 150, WIDTH - 2 * MARGIN),
    ...lines,
    text(invitation, MARGIN, 872, 40, '#8fa1b8'),
    ...where,
    ...known,
    link === undefined ? '' : qr(link, WIDTH - MARGIN - QR_SIZE, HEIGHT - MARGIN - QR_SIZE),
  ])
}

/** A picture of the name alone, as large as possible. */
export function namePicture(name: string): string {
  return picture([title(name, 620, 320, WIDTH - 2 * MARGIN)])
}

/** A picture of a PIN: four digits to type on the device that wants to mirror. */
export function pinPicture(pin: string): string {
  return picture([
    text('To mirror, enter this code on your device', MARGIN, 250, 72, '#c9d3e0'),
    text(pin, MARGIN, 720, 400, '#fff', 'bold'),
  ])
}

function picture(content: readonly string[]): string {
  const view = `width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}"`
  const font = 'font-family="Noto Sans, DejaVu Sans, sans-serif"'
  return `<svg xmlns="http://www.w3.org/2000/svg" ${view} ${font}>
<rect width="${WIDTH}" height="${HEIGHT}" fill="#101a28"/>
<rect width="${WIDTH}" height="14" fill="#3d8bfd"/>
${content.join('\n')}
</svg>
`
}

function title(name: string, y: number, size: number, width: number): string {
  const shown = Array.from(name.replace(UNSHOWN, ''))
  const whole = shown.length > MAX_NAME ? `${shown.slice(0, MAX_NAME - 1).join('')}…` : shown.join('')
  return text(whole, MARGIN, y, fitting(whole, size, width), '#fff', 'bold')
}

function text(content: string, x: number, y: number, size: number, fill: string, weight = 'normal'): string {
  const escaped = xmlText(content.replace(UNSHOWN, ''))
  return `<text x="${x}" y="${y}" font-size="${size}" font-weight="${weight}" fill="${fill}">${escaped}</text>`
}

/** The font size at which a text fits into `width`, at most `size`. */
function fitting(content: string, size: number, width: number): number {
  const widths = Array.from(content, character =>
    (character.codePointAt(0) ?? 0) < FIRST_SQUARE ? LETTER_WIDTH : SQUARE_WIDTH,
  )
  const sum = widths.reduce((sum, width) => sum + width, 0)
  return Math.floor(Math.min(size, width / Math.max(sum, 1)))
}

/** A QR code, dark on light. */
function qr(content: string, x: number, y: number): string {
  const { size, path } = qrPath(content)
  return `<g transform="translate(${x} ${y}) scale(${QR_SIZE / size})" shape-rendering="crispEdges">
<rect width="${size}" height="${size}" fill="#fff"/><path d="${path}"/></g>`
}
