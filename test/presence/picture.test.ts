/** The pictures, drawn by librsvg, which draws them on the device, and read by OCR and a reader of QR codes. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { idlePicture, namePicture, pinPicture } from '../../src/presence/picture.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const skip = needs('rsvg-convert', 'tesseract', 'zbarimg')

function draw(t: Test, svg: string): string {
  const path = join(temporaryFolder(t), 'picture.png')
  execFileSync('rsvg-convert', ['--output', path], { input: svg })
  return path
}

const read = (picture: string) =>
  execFileSync('tesseract', [picture, '-', '--psm', '11'], { encoding: 'utf8', stdio: 'pipe' })

t.test('while nobody mirrors', { skip }, async t => {
  const url = 'http://192.0.2.17:8080/'
  const picture = draw(
    t,
    idlePicture({
      name: 'Meeting Room 4',
      steps: ['Open Screen Mirroring'],
      url,
      link: `${url}#key=abc`,
      invitation: 'Manage this device',
      certificate: [],
    }),
  )
  const text = read(picture)
  for (const line of ['Meeting Room 4', 'Open Screen Mirroring', 'Manage this device', '192.0.2.17:8080'])
    t.match(text, line)
  t.equal(
    execFileSync('zbarimg', ['--quiet', '--raw', picture], { encoding: 'utf8', stdio: 'pipe' }).trim(),
    `${url}#key=abc`,
  )
  t.notMatch(text, 'abc', 'only a camera is to read it')
})

t.test('with TLS, the pin can be read', { skip }, async t => {
  const url = 'https://192.0.2.17/'
  const pin = 'OA1zyEww8d/pbNQoh2E1XHW1vsK2IpGU+iwmQv/GwRY='
  const picture = draw(
    t,
    idlePicture({
      name: 'Meeting Room 4',
      steps: ['Open Screen Mirroring'],
      url,
      link: url,
      invitation: 'Manage this device',
      certificate: [`sha256//${pin}`],
    }),
  )
  // Letters that look alike are left to the QR code, and to its reader.
  const alike = (text: string) =>
    text
      .replace(/[Il1|]/g, '1')
      .replace(/[O0o]/g, '0')
      .replace(/\s/g, '')
      .toLowerCase()
  t.match(alike(read(picture)), alike(`sha256//${pin}`.slice(0, 30)))
  t.equal(execFileSync('zbarimg', ['--quiet', '--raw', picture], { encoding: 'utf8', stdio: 'pipe' }).trim(), url)
})

t.test('without an address', { skip }, async t => {
  const text = read(
    draw(
      t,
      idlePicture({
        name: 'Room',
        steps: [],
        url: undefined,
        link: undefined,
        invitation: 'This device has no network address yet.',
        certificate: [],
      }),
    ),
  )
  t.match(text, 'no network address')
})

t.test('a PIN, large', { skip }, async t => {
  for (const pin of ['0817', '1269', '3456']) t.match(read(draw(t, pinPicture(pin))), pin)
})

t.test('a step that is too long is smaller', t => {
  const sizeOf = (step: string) => {
    const rest = { url: undefined, link: undefined, invitation: '', certificate: [] }
    const svg = idlePicture({ name: 'Room', steps: [step], ...rest })
    return Number(new RegExp(`font-size="(\\d+)"[^>]*>${step}<`).exec(svg)?.[1])
  }
  t.equal(sizeOf('and choose Room.'), 54)
  t.ok(sizeOf(`and choose ${'W'.repeat(50)}.`) < 54)
  t.end()
})

t.test('any name is a picture, with all of a long one', { skip }, async t => {
  t.match(read(draw(t, namePicture('Boardroom'))), 'Boardroom')
  t.match(read(draw(t, namePicture('The large conference room on the second floor'))), /The large .* second floor/)
  for (const name of ['</text><script>', '&amp; "\'', '\u202eRaum\u0000\u001b\ufffe\ud800', '会'.repeat(500), ''])
    t.ok(existsSync(draw(t, namePicture(name))), JSON.stringify(name).slice(0, 40))
  t.notMatch(namePicture('a\u202eb\u0007'), /[\u202e\u0007]/)
})
