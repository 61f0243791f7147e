#!/bin/sh
# build/image/base.sh OUT.tar: Debian for arm64, without anything of ours. Takes minutes, and changes with this file alone.
set -eu
for tool in mmdebstrap qemu-aarch64-static arch-test; do
	command -v "$tool" >/dev/null || missing="${missing-} $tool"
done
[ -z "${missing-}" ] || {
	echo "make image needs$missing: apt-get install mmdebstrap qemu-user-static arch-test" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || { echo 'make image needs root: it makes a root file system' >&2; exit 1; }

# The kernel hands programs for arm64 to QEMU. A container's systemd does not register that by itself.
binfmt=/proc/sys/fs/binfmt_misc
[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt
[ -e $binfmt/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register

# A small initrd: what a virtual board boots from.
initrd=$(mktemp)
trap 'rm -f "$initrd"' EXIT
cat >"$initrd" <<'END'
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d"
echo MODULES=list >"$1/etc/initramfs-tools/conf.d/receiver"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/etc/initramfs-tools/modules"
END
mmdebstrap --arch=arm64 --variant=minbase --aptopt='APT::Install-Recommends "false"' \
	--essential-hook="sh $initrd \"\$1\"" \
	--include=systemd-sysv,systemd-timesyncd,udev,dbus,iproute2,kmod,libstdc++6,tzdata,alsa-utils \
	--include=linux-image-arm64,initramfs-tools,zstd \
	bookworm "$1.new"
mv "$1.new" "$1"
