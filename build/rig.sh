#!/bin/sh
# build/rig.sh: the root file system that the machines of test/rig/ begin with, build/out/rig/root: Debian with what a
# receiver runs on, and nothing of ours. Takes a minute or two, and no time where this recipe has not changed.
set -eu
out=$PWD/build/out/rig
recipe=$(sha256sum <"$0")
[ "$(cat "$out/recipe" 2>/dev/null)" != "$recipe" ] || exit 0

[ "$(id -u)" = 0 ] || { echo 'make rig needs root: it makes a root file system' >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo 'make rig needs mmdebstrap: apt-get install mmdebstrap' >&2; exit 1; }

# Not into a mount that was left there.
rm -rf --one-file-system "$out"
mkdir -p "$out/mount"
# The packages come from where apt gets its own.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$')

# UxPlay decodes by h264parse (plugins-bad) and avdec_h264 (libav, which it depends on); multifilesink (good) keeps what it
# shows. GStreamer looks into every plugin once, which takes a second, and keeps what it found where uxplay.service says.
TMPDIR=$out mmdebstrap --quiet --format=directory --variant=minbase --aptopt='APT::Install-Recommends "false"' \
	--dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--include=systemd-sysv,systemd-timesyncd,dbus,procps,iproute2,tzdata,alsa-utils,nodejs \
	--include=avahi-daemon,avahi-utils,libnss-mdns \
	--include=uxplay,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-tools \
	--customize-hook='chroot "$1" systemctl --quiet enable systemd-networkd.service' \
	--customize-hook='mkdir "$1/var/cache/uxplay"' \
	--customize-hook='chroot "$1" env GST_REGISTRY=/var/cache/uxplay/gstreamer.bin gst-inspect-1.0 >/dev/null 2>&1' \
	trixie "$out/root" "$mirror"

root=$out/root
# No updates, and nothing to build anew at the first boot.
rm -f "$root"/etc/systemd/system/timers.target.wants/*
touch "$root/etc/.updated" "$root/var/.updated"
# What every machine has of its own.
echo receiver >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 receiver\n::1 localhost\n' >"$root/etc/hosts"
rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
rm -rf "$root/var/lib/apt/lists" "$root/var/cache/apt" "$root"/var/log/*
mkdir "$root/var/log/journal"
echo "$recipe" >"$out/recipe"
