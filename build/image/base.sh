#!/bin/sh
# build/image/base.sh OUT.tar: Debian for arm64 with all that a receiver runs on, and nothing of ours. Takes minutes, and
# changes with this file alone.
set -eu
. build/image/binfmt.sh

# A small initrd that checks the root file system: what virtual boards boot from.
initrd=$(mktemp)
trap 'rm -f "$initrd"' EXIT
cat >"$initrd" <<'END'
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf '%s\n' MODULES=list FSTYPE=ext4 >"$1/etc/initramfs-tools/conf.d/receiver"
printf '%s\n' virtio_pci virtio_mmio virtio_blk ext4 >"$1/etc/initramfs-tools/modules"
END
# UxPlay decodes with h264parse (plugins-bad) and avdec_h264 (libav, its dependency).
mmdebstrap --quiet --format=tar --arch=arm64 --variant=minbase \
	--aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--essential-hook="sh $initrd \"\$1\"" \
	--include=systemd-sysv,systemd-timesyncd,systemd-resolved,udev,dbus,iproute2,procps,kmod,e2fsprogs,tzdata,alsa-utils,nodejs \
	--include=linux-image-arm64,initramfs-tools,busybox,zstd \
	--include=rauc,rauc-service,libubootenv-tool,curl,openssl,fdisk,util-linux,dosfstools \
	--include=avahi-daemon,avahi-utils,libnss-mdns \
	--include=uxplay,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-tools \
	--include=gstreamer1.0-alsa,gstreamer1.0-libav \
	--include=weston,seatd,libgl1-mesa-dri,fonts-dejavu-core,nginx-light \
	trixie "$1.new" "$(build/debian-mirror.sh)"
mv "$1.new" "$1"
