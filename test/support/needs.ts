/** Why tests are left out, in words that say what would enable them. build/left-out.ts adds them up after a run. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Debian's package for each program, or file, that some tests need and not every machine has. */
const PACKAGES = {
  '/usr/bin/chromium': 'chromium',
  '/usr/bin/chromium-headless-shell': 'chromium-headless-shell',
  '/usr/bin/firefox-esr': 'firefox-esr',
  '/usr/lib/python3/dist-packages/jinja2/__init__.py': 'python3-jinja2',
  '/usr/lib/systemd/systemd-networkd': 'systemd',
  '/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator': 'systemd',
  '/usr/bin/script': 'bsdutils',
  '/usr/share/i18n/locales/en_GB': 'locales',
  'ansible-playbook': 'ansible-core',
  cc: 'gcc libc6-dev',
  debugfs: 'e2fsprogs',
  'edid-decode': 'edid-decode',
  ip: 'iproute2',
  lego: 'lego',
  mcopy: 'mtools',
  mkenvimage: 'u-boot-tools',
  mksquashfs: 'squashfs-tools',
  mosquitto: 'mosquitto',
  mosquitto_sub: 'mosquitto-clients',
  nginx: 'nginx-light',
  openssl: 'openssl',
  pebble: 'pebble',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  python3: 'python3',
  'qemu-storage-daemon': 'qemu-system-common',
  rauc: 'rauc',
  'rsvg-convert': 'librsvg2-bin',
  sfdisk: 'fdisk',
  'systemd-analyze': 'systemd',
  'systemd-notify': 'systemd',
  tesseract: 'tesseract-ocr tesseract-ocr-eng',
  wg: 'wireguard-tools',
  'wireguard-go': 'wireguard-go',
  wpa_cli: 'wpasupplicant',
  wpa_supplicant: 'wpasupplicant',
  zbarimg: 'zbar-tools',
} as const

/** Debian leaves the folders of administrators out of an ordinary user's PATH. */
const FOLDERS = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin']

/**
 * For a test's `skip`: false if everything that it needs is here, otherwise the packages to install.
 * @param files Programs by their names, and files by their paths.
 */
export function needs(...files: readonly (keyof typeof PACKAGES)[]): string | false {
  const missing = files.filter(
    file => !FOLDERS.some(folder => existsSync(file.startsWith('/') ? file : join(folder, file))),
  )
  return missing.length > 0 && `install ${missing.map(file => PACKAGES[file]).join(' ')}`
}

/** The same for a test that is too long for every change (`make proof`). */
export const NEEDS_PROOF: string | false = !process.env.PROOF && 'PROOF=1 is not set'

/** The same for a test that only root can run. */
export const NEEDS_ROOT: string | false = process.getuid?.() !== 0 && 'run as root'
