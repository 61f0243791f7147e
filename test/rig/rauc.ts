/** A machine with two systems for RAUC to switch between, and a stand-in for U-Boot. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Run } from '../../hal/os/command.ts'
import { runCommand } from '../../hal/os/command.ts'
import type { Rig } from './rig.ts'

/**
 * Picks the slot as the boot script does (build/image): the first one in the order that has an attempt left, which is taken.
 * The machine has one root for both slots, and so the version that runs is the one noted for the slot. Services have a
 * /proc of their own (ProtectProc=), and are given the command line apart.
 */
const BOOT_LOADER = `#!/bin/sh
set -eu
mkdir -p /data/rauc /data/update && chmod 700 /data/update && cd /data
if [ ! -e uboot.env ]; then
	truncate -s 512 uboot.env && truncate -s 8M a.img b.img && echo 1.0.0 >A.version
	printf 'BOOT_ORDER=A B\\nBOOT_A_LEFT=14\\nBOOT_B_LEFT=0\\n' >first.env && fw_setenv -f first.env -s first.env
	printf '[slot.rootfs.0]\\nbundle.version=1.0.0\\nstatus=ok\\n' >rauc/central.raucs
fi
for slot in $(fw_printenv -n BOOT_ORDER); do
	left=$((0x$(fw_printenv -n BOOT_\${slot}_LEFT)))
	[ $left -gt 0 ] || continue
	fw_setenv BOOT_\${slot}_LEFT $(printf %x $((left - 1))) && break
done
echo "rauc.slot=$slot" >/run/cmdline && mount --bind /run/cmdline /proc/cmdline
sed -i '/^IMAGE_VERSION/d' /usr/lib/os-release && echo "IMAGE_VERSION=$(cat $slot.version)" >>/usr/lib/os-release
`
const CONFIGURATION = `[system]
compatible=receiver-rig
bootloader=uboot
mountprefix=/run/rauc/mnt
data-directory=/data/rauc
bundle-formats=verity plain
min-bundle-version=0.5.0
boot-attempts=20
boot-attempts-primary=3
[keyring]
path=/usr/lib/rauc/keyring.pem
use-bundle-signing-time=true
[slot.rootfs.0]
device=/data/a.img
type=raw
bootname=A
[slot.rootfs.1]
device=/data/b.img
type=raw
bootname=B
`
/** Written before the first boot. */
export const RAUC_FILES = {
  '/usr/lib/rauc/system.conf': CONFIGURATION,
  '/etc/fw_env.config': '/data/uboot.env 0 0x200\n',
  '/etc/dbus-1/system.d/receiverd-rauc.conf': readFileSync('build/package/rauc-dbus.conf', 'utf8'),
  '/root/boot-loader': BOOT_LOADER,
  '/etc/systemd/system/boot-loader.service':
    '[Unit]\nDefaultDependencies=no\nBefore=sysinit.target\n[Service]\nType=oneshot\nExecStart=sh /root/boot-loader\n',
  '/etc/systemd/system/sysinit.target.d/boot-loader.conf': '[Unit]\nRequires=boot-loader.service\n',
  '/etc/systemd/system/receiverd.service.d/update.conf':
    '[Service]\nEnvironment=RECEIVERD_UPDATE=/data/update\nReadWritePaths=/data/update\nBindReadOnlyPaths=/run/cmdline:/proc/cmdline\n',
}
const KEYS = `mkdir -p /root/keys && cd /root/keys
for name in ours theirs; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.pem -days 60 -subj /CN=$name
done
cp ours.pem /usr/lib/rauc/keyring.pem`
/** A loop device mounts the bundle of an installation. The machine may not make its devices (CAP_MKNOD). */
const LOOP_DEVICES =
  'mknod -m 600 /dev/loop-control c 10 237; for n in $(seq 0 15); do mknod -m 600 /dev/loop$n b 7 $n; done'

export interface BundleOptions {
  readonly version?: string
  readonly compatible?: string
  readonly key?: 'ours' | 'theirs' | 'expiring'
  /** The kernel here has no device mapper, so a `verity` bundle can be looked at, but not be installed. */
  readonly format?: 'plain' | 'verity'
}

/** Makes the keys, and lets RAUC mount bundles until the next boot. */
export async function setUpRauc(rig: Rig): Promise<void> {
  await rig.shell(KEYS)
  await makeLoopDevices(rig)
}

export async function makeLoopDevices(rig: Rig): Promise<void> {
  await promisify(execFile)('nsenter', ['--target', `${rig.pid}`, '--mount', 'sh', '-c', LOOP_DEVICES])
}

/** Makes a key and its certificate, PATH.key and PATH.pem, which is valid for some seconds: enough to sign something. */
export async function makeExpiring(rig: Rig, path: string): Promise<void> {
  await rig.shell(`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=expiring \\
-keyout ${path}.key -out ${path}.pem -not_before 20200101000000Z -not_after "$(date -u -d '20 seconds' +%Y%m%d%H%M%SZ)"`)
}

export async function untilExpired(rig: Rig, path: string): Promise<void> {
  await rig.shell(`while openssl x509 -noout -checkend 0 -in ${path}.pem; do sleep 0.2; done`)
}

/** Makes a bundle of 4 MiB at a path in the machine. */
export async function makeBundle(rig: Rig, path: string, options: BundleOptions = {}): Promise<void> {
  const { version = '1.1.0', compatible = 'receiver-rig', key = 'ours', format = 'plain' } = options
  const manifest = `[update]\ncompatible=${compatible}\nversion=${version}\n[bundle]\nformat=${format}\n[image.rootfs]\nfilename=rootfs.img\n`
  // With a keyring, RAUC looks at the certificate, by its own clock.
  const certificate = (key === 'expiring' ? ['cert', 'key'] : ['cert', 'key', 'keyring'])
    .map(name => `--${name}=${key}.${name === 'key' ? 'key' : 'pem'}`)
    .join(' ')
  await rig.shell(`cd /root/keys && rm -rf content ${path} && mkdir content && head -c 4M /dev/urandom >content/rootfs.img
printf '${manifest}' >content/manifest.raucm
rauc bundle ${certificate} --mksquashfs-args='-quiet -no-progress' content ${path}`)
}

/** Runs commands of the HAL in the machine. */
export function runIn(rig: Rig): Run {
  return argv => runCommand(['nsenter', ...rig.enter, ...argv])
}
