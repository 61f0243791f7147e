import { qrPath } from '../../qr/qr-path.ts'

const SVG = 'http://www.w3.org/2000/svg'

/** Draws a QR code, dark on light in every color scheme, because scanners miss inverted codes. */
export function qrImage(text: string, label: string): SVGElement {
  const { size, path } = qrPath(text)
  return svg('svg', { viewBox: `0 0 ${size} ${size}`, class: 'qr', role: 'img', 'aria-label': label }, [
    svg('path', { d: `M0,0h${size}v${size}h-${size}z`, fill: '#fff' }),
    svg('path', { d: path, fill: '#000' }),
  ])
}

function svg(tag: string, attributes: Readonly<Record<string, string>>, children: readonly Node[] = []): SVGElement {
  const element = document.createElementNS(SVG, tag) as SVGElement
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}
