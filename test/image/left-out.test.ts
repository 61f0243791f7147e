/** The files of Debian's packages that images have, and have not: build/image/left-out, read as dpkg reads it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const rules = readFileSync(join(REPOSITORY, 'build/image/left-out'), 'utf8')
  .split('\n')
  .filter(line => line !== '' && !line.startsWith('#'))
  .map(line => {
    const [, kind, glob = ''] = /^path-(exclude|include)=(\/\S+)$/.exec(line) ?? []
    if (!kind) throw new Error(`not a rule: ${line}`)
    return {
      isExcluded: kind === 'exclude',
      pattern: new RegExp(`^${toRegExp(glob)}$`),
      beginning: /^[^*?[]*/.exec(glob)?.[0].replace(/\/+$/, '') ?? '',
    }
  })

/** Of "*" and sets alone, which is all that the file uses. */
function toRegExp(glob: string): string {
  return glob.replace(/[.+(){}^$|\\]/g, '\\$&').replaceAll('*', '.*')
}

const isLeftOut = (path: string) => rules.findLast(({ pattern }) => pattern.test(path))?.isExcluded ?? false

/** dpkg keeps a folder that is left out if some file in it may come back, and otherwise fails where one does. */
const isFolderLeftOut = (path: string) =>
  isLeftOut(path) && !rules.some(({ isExcluded, beginning }) => !isExcluded && path.startsWith(beginning))

/** `/a` and `/a/b` of `/a/b/c`. */
const folders = (path: string) =>
  path.split('/').flatMap((_, index, names) => (index > 1 ? [names.slice(0, index).join('/')] : []))

const LIBRARIES = '/usr/lib/aarch64-linux-gnu'
const KERNEL = '/usr/lib/modules/6.12.0-arm64/kernel'

const kept = [
  '/usr/share/doc/bash/copyright',
  // The target of one of Debian's alternatives, which must be there.
  '/usr/share/icons/Adwaita/cursor.theme',
  ...['broadcom/bcm2837-rpi-3-b.dtb', 'broadcom/bcm2711-rpi-4-b.dtb'].map(
    name => `/usr/lib/linux-image-6.12.0-arm64/${name}`,
  ),
  '/usr/lib/firmware/brcm/brcmfmac43455-sdio.raspberrypi,4-model-b.txt',
  '/usr/lib/firmware/cypress/cyfmac43430-sdio.bin',
  ...['gstlibav', 'gstwaylandsink', 'gstalsa', 'gstrsvg', 'gstvideoparsersbad'].map(
    name => `${LIBRARIES}/gstreamer-1.0/lib${name}.so`,
  ),
  ...[
    // Systems, bundles and settings.
    'block/loop',
    'block/virtio_blk',
    'md/dm-mod',
    'md/dm-verity',
    'mmc/host/bcm2835',
    'mmc/host/sdhci-iproc',
    'watchdog/bcm2835_wdt',
    // Networks.
    'net/ethernet/broadcom/genet/genet',
    'net/virtio_net',
    'net/usb/ax88179_178a',
    'net/usb/cdc_ether',
    'net/usb/cdc_ncm',
    'net/usb/lan78xx',
    'net/usb/r8152',
    'net/usb/smsc95xx',
    'net/usb/usbnet',
    'net/wireless/broadcom/brcm80211/brcmfmac/brcmfmac',
    'net/wireless/virtual/mac80211_hwsim',
    // Screens and keyboards.
    'gpu/drm/v3d/v3d',
    'gpu/drm/vc4/vc4',
    'gpu/drm/virtio/virtio-gpu',
    'hid/usbhid/usbhid',
    'media/cec/core/cec',
    'staging/vc04_services/bcm2835-audio/snd-bcm2835',
    'usb/dwc2/dwc2',
    'usb/host/xhci-hcd',
  ].map(name => `${KERNEL}/drivers/${name}.ko.xz`),
  ...['fat/vfat', 'nls/nls_ascii', 'overlayfs/overlay', 'squashfs/squashfs'].map(name => `${KERNEL}/fs/${name}.ko.xz`),
  ...['usb/snd-usb-audio', 'core/snd-pcm', 'soc/bcm/snd-soc-bcm2835-i2s'].map(name => `${KERNEL}/sound/${name}.ko.xz`),
]
const leftOut = [
  '/usr/share/doc/bash/README',
  '/usr/share/man/man1/bash.1.gz',
  '/usr/lib/linux-image-6.12.0-arm64/rockchip/rk3399-rockpro64.dtb',
  `${LIBRARIES}/libLLVM.so.19.1`,
  `${LIBRARIES}/gstreamer-1.0/libgstx265.so`,
  `${KERNEL}/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.xz`,
  `${KERNEL}/drivers/net/ethernet/intel/e1000e/e1000e.ko.xz`,
  `${KERNEL}/fs/btrfs/btrfs.ko.xz`,
]

t.test('files that a receiver needs are there', async t => {
  t.same(kept.filter(isLeftOut), [])
  t.same(kept.flatMap(folders).filter(isFolderLeftOut), [])
})

t.test('files that none needs are not', async t => {
  t.same(
    leftOut.filter(path => !isLeftOut(path)),
    [],
  )
})
