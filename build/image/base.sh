#!/bin/sh
# build/image/base.sh OUT.tar: Debian for arm64 with all that a receiver runs on, and nothing of ours. Takes minutes, and
# changes with this file and left-out alone.
set -eu
. build/image/binfmt.sh
# The initrd and /etc/shadow have times in them.
export SOURCE_DATE_EPOCH=$BASE_EPOCH

# A small initrd that checks the root file system: what virtual boards boot from.
initrd=$(mktemp)
trap 'rm -f "$initrd" "${drivers:-}"' EXIT
cat >"$initrd" <<'END'
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf '%s\n' MODULES=list FSTYPE=ext4 >"$1/etc/initramfs-tools/conf.d/receiver"
printf '%s\n' virtio_pci virtio_mmio virtio_blk ext4 >"$1/etc/initramfs-tools/modules"
END
# The set of rules is whole: no driver is without another that it calls.
drivers=$(mktemp)
cat >"$drivers" <<'END'
set -e
cd "$1"/usr/lib/modules/*
find . -name '*.ko*' | sed 's|.*/||; s|\.ko.*||; y|-|_|' >"$1/tmp/drivers"
sed 's|.*/||; s|\.ko.*||; y|-|_|' modules.builtin >>"$1/tmp/drivers"
find . -name '*.ko*' | sed "s|^\.|${PWD#"$1"}|" | xargs chroot "$1" modinfo --field depends | tr ',-' '\n_' |
	grep . | sort -u | grep -vxFf "$1/tmp/drivers" >"$1/tmp/missing" || true
[ ! -s "$1/tmp/missing" ] || { echo "build/image/left-out leaves out what other drivers call:" $(cat "$1/tmp/missing") >&2; exit 1; }
rm "$1/tmp/drivers" "$1/tmp/missing"
END
# UxPlay decodes with h264parse (plugins-bad) and avdec_h264 (libav, its dependency).
mmdebstrap --verbose --format=tar --arch=arm64 --variant=minbase \
	--aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
	--dpkgopt=build/image/left-out \
	--essential-hook="sh $initrd \"\$1\"" --customize-hook="sh $drivers \"\$1\"" \
	--customize-hook='rm "$1"/usr/share/sounds/sf2/*' \
	--include=systemd-sysv,systemd-timesyncd,systemd-resolved,libnss-resolve,udev,dbus,iproute2,procps,kmod,e2fsprogs,tzdata,alsa-utils,nodejs,systemd-journal-remote \
	--include=linux-image-arm64,initramfs-tools,busybox,zstd \
	--include=rauc,rauc-service,libubootenv-tool,curl,ca-certificates,openssl,fdisk,util-linux,dosfstools \
	--include=avahi-daemon,avahi-utils,libnss-mdns \
	--include=uxplay,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-tools \
	--include=gstreamer1.0-alsa,gstreamer1.0-libav \
	--include=weston,seatd,fonts-dejavu-core,nginx-light \
	trixie "$1.new" "$(build/debian-mirror.sh)" >"$1.log" 2>&1 || { tail -n 40 "$1.log" >&2; exit 1; }
mv "$1.new" "$1"
