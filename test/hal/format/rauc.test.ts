/** The outputs are those of RAUC 1.13 and systemd 257 in Debian trixie. */
import t from 'tap'
import { bundleIn, percentIn, propertyIn, refusalIn, slotsIn, textIn } from '../../../hal/format/rauc.ts'

const text = (data: string) => ({ type: 's', data })
const slots = (...slots: (readonly [name: string, values: object])[]) =>
  JSON.stringify({ type: 'a(sa{sv})', data: [slots] })
const INSTALLED =
  '{"type":"a(sa{sv})","data":[[["rootfs.1",{"installed.timestamp":{"type":"s","data":"2026-11-25T00:18:44Z"},"size":{"type":"t","data":8388608},"sha256":{"type":"s","data":"80812bebeed3051cb3ebbd58e955dc9076a79f19c021d78cdae9ba90872f0d34"},"bundle.hash":{"type":"s","data":"c3750c048c52e8efd36e1526728e7761e013c006ffea52c60b9af85ff35b0931"},"bundle.compatible":{"type":"s","data":"receiver-rig"},"installed.count":{"type":"u","data":1},"installed.transaction":{"type":"s","data":"897a59d7-dce2-4266-8e12-eb09b1b6af15"},"bundle.version":{"type":"s","data":"1.1.0"},"type":{"type":"s","data":"raw"},"bootname":{"type":"s","data":"B"},"class":{"type":"s","data":"rootfs"},"activated.count":{"type":"u","data":1},"activated.timestamp":{"type":"s","data":"2026-11-25T00:18:44Z"},"boot-status":{"type":"s","data":"good"},"state":{"type":"s","data":"inactive"},"status":{"type":"s","data":"ok"},"device":{"type":"s","data":"/data/b.img"}}],["rootfs.0",{"class":{"type":"s","data":"rootfs"},"boot-status":{"type":"s","data":"good"},"type":{"type":"s","data":"raw"},"bootname":{"type":"s","data":"A"},"device":{"type":"s","data":"/data/a.img"},"state":{"type":"s","data":"booted"}}]]]}\n'
const BUNDLE =
  '{"type":"a{sv}","data":[{"update":{"type":"v","data":{"type":"a{sv}","data":{"version":{"type":"s","data":"1.1.0"},"compatible":{"type":"s","data":"receiver-rig"}}}},"images":{"type":"v","data":{"type":"aa{sv}","data":[{"slot-class":{"type":"s","data":"rootfs"},"filename":{"type":"s","data":"rootfs.img"},"checksum":{"type":"s","data":"80812bebeed3051cb3ebbd58e955dc9076a79f19c021d78cdae9ba90872f0d34"},"size":{"type":"t","data":8388608},"hooks":{"type":"as","data":[]}}]}},"manifest-hash":{"type":"s","data":"8886f6f912f35c120414fcebe4daf4e16919c980c04aa925a769f3212a00ffaf"},"bundle":{"type":"v","data":{"type":"a{sv}","data":{"format":{"type":"s","data":"verity"},"verity-size":{"type":"t","data":53248}}}},"meta":{"type":"v","data":{"type":"a{sa{ss}}","data":{}}}}]}\n'

t.test('slots: one that was installed, and one that never was', async t => {
  t.strictSame(slotsIn(INSTALLED), [
    { name: 'rootfs.1', bootName: 'B', version: '1.1.0', state: 'good', isActivated: true },
    { name: 'rootfs.0', bootName: 'A', version: undefined, state: 'empty', isActivated: false },
  ])
})

t.test('slots: whether one can be started', async t => {
  const cases: readonly (readonly [status: string, bootStatus: string, state: string])[] = [
    ['ok', 'good', 'good'],
    ['ok', 'bad', 'bad'],
    ['pending', 'good', 'bad'],
    ['pending', 'bad', 'bad'],
    ['failed', 'good', 'bad'],
  ]
  for (const [status, bootStatus, state] of cases) {
    const values = { bootname: text('B'), status: text(status), 'boot-status': text(bootStatus) }
    t.match(slotsIn(slots(['rootfs.1', values])), [{ state }], `${status}, ${bootStatus}`)
  }
})

t.test('slots: whether an installation came to its end', async t => {
  const at = (status: string, installed: string, activated?: string) => {
    const values = { bootname: text('B'), status: text(status), 'installed.timestamp': text(installed) }
    return slotsIn(slots(['rootfs.1', activated ? { ...values, 'activated.timestamp': text(activated) } : values]))[0]
  }
  t.ok(at('ok', '2026-11-25T00:18:44Z', '2026-11-25T00:18:45Z')?.isActivated)
  t.notOk(at('pending', '2026-11-25T00:18:44Z', '2026-11-25T00:18:45Z')?.isActivated, 'while it is written')
  t.notOk(at('ok', '2026-11-25T00:18:44Z', '2026-11-24T00:18:44Z')?.isActivated, 'the time before')
  t.notOk(at('ok', '2026-11-25T00:18:44Z')?.isActivated)
})

t.test('a bundle, and other answers', async t => {
  t.strictSame(bundleIn(BUNDLE), { version: '1.1.0', compatible: 'receiver-rig', files: ['rootfs.img'] })
  t.equal(textIn('{"type":"s","data":["rootfs.0"]}\n'), 'rootfs.0')
  t.equal(propertyIn('{"type":"s","data":"idle"}'), 'idle')
  t.equal(percentIn('{"type":"(isi)","data":[46,"Copying image to rootfs.1",3]}'), 46)
})

t.test('why a bundle is refused', async t => {
  const cases: readonly (readonly [message: string, refusal: string | undefined])[] = [
    ['Call failed: signature verification failed: Verify error: self-signed certificate', 'bundle-signature'],
    ['signature verification failed: error:1700009E:CMS routines::verification failure', 'bundle-signature'],
    ['Call failed: Invalid bundle format: Signature size (8245935927064750007) exceeds bundle size', 'bundle-damaged'],
    [
      'Call failed: Invalid bundle format: Failed to seek to end of bundle: Error seeking in file: Invalid argument',
      'bundle-damaged',
    ],
    ["Compatible mismatch: Expected 'receiver-rig' but bundle manifest has 'receiver-pi'", 'bundle-compatible'],
    ["Version mismatch: Expected at least '1.0.0' but bundle manifest has '0.9.0'", 'bundle-too-old'],
    ["Call failed: Bundle format 'plain' not allowed", 'bundle-damaged'],
    [
      'Installation error: Failed updating slot rootfs.1: Failed to copy data: Error writing to file descriptor: No space left on device',
      undefined,
    ],
    ['Call failed: already processing a different method', undefined],
    ["Installation error: Destination device '/data/b.img' for slot 'rootfs.1' not found", undefined],
    ['', undefined],
  ]
  for (const [message, refusal] of cases) t.equal(refusalIn(message), refusal, message)
})

t.test('anything else is an error', async t => {
  for (const output of [
    '',
    'Call failed',
    '{}',
    '[]',
    'null',
    '{"type":"s","data":5}',
    '{"type":"a","data":[[["x",{}]]]}',
  ]) {
    for (const parse of [slotsIn, bundleIn, textIn, propertyIn, percentIn])
      t.throws(() => parse(output), { code: 'UNREADABLE' }, `${parse.name} ${output}`)
  }
})
