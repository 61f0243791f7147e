#!/bin/sh
# build/image/base.sh OUT.tar: Debian for arm64, without anything of ours. Takes minutes, and changes with this file alone.
set -eu
. build/image/binfmt.sh

# A small initrd: what a virtual board boots from.
initrd=$(mktemp)
trap 'rm -f "$initrd"' EXIT
cat >"$initrd" <<'END'
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d"
echo MODULES=list >"$1/etc/initramfs-tools/conf.d/receiver"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/etc/initramfs-tools/modules"
END
mmdebstrap --format=tar --arch=arm64 --variant=minbase --aptopt='APT::Install-Recommends "false"' \
	--essential-hook="sh $initrd \"\$1\"" \
	--include=systemd-sysv,systemd-timesyncd,udev,dbus,iproute2,kmod,libstdc++6,tzdata,alsa-utils \
	--include=linux-image-arm64,initramfs-tools,zstd \
	bookworm "$1.new"
mv "$1.new" "$1"
