#!/bin/sh
# build/rig.sh: makes build/out/rig/root, the root file system of the machines of test/rig/: Debian with all that a receiver
# runs on, and nothing of ours. Takes a minute or two, and does nothing if this recipe has not changed.
set -eu
out=$PWD/build/out/rig
recipe=$(sha256sum <"$0")
[ "$(cat "$out/recipe" 2>/dev/null)" != "$recipe" ] || exit 0

[ "$(id -u)" = 0 ] || { echo 'make rig needs root: it makes a root file system' >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo 'make rig needs mmdebstrap: apt-get install mmdebstrap' >&2; exit 1; }

# Without crossing into a mount.
rm -rf --one-file-system "$out"
mkdir -p "$out/mount"

# UxPlay decodes with h264parse (plugins-bad) and avdec_h264 (libav, its dependency); the tests look at the output of
# multifilesink (plugins-good). gst-inspect writes the list of plugins to the file that uxplay.service names.
TMPDIR=$out mmdebstrap --quiet --format=directory --variant=minbase --aptopt='APT::Install-Recommends "false"' \
	--dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--include=systemd-sysv,systemd-timesyncd,dbus,procps,iproute2,tzdata,alsa-utils,nodejs,wpasupplicant \
	--include=rauc,rauc-service,libubootenv-tool,squashfs-tools,openssl,curl \
	--include=avahi-daemon,avahi-utils,libnss-mdns,nginx-light \
	--include=systemd-journal-remote,rsyslog,rsyslog-gnutls \
	--include=uxplay,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-tools \
	--customize-hook='chroot "$1" systemctl --quiet enable systemd-networkd.service' \
	--customize-hook='chroot "$1" systemctl --quiet disable nginx.service wpa_supplicant.service rsyslog.service' \
	--customize-hook='mkdir "$1/var/cache/uxplay"' \
	--customize-hook='chroot "$1" env GST_REGISTRY=/var/cache/uxplay/gstreamer.bin gst-inspect-1.0 >/dev/null 2>&1' \
	trixie "$out/root" "$(build/debian-mirror.sh)"

root=$out/root
# No automatic updates, and nothing for ConditionNeedsUpdate= to rebuild at boot (systemd-update-done.service(8)).
rm -f "$root"/etc/systemd/system/timers.target.wants/*
touch "$root/etc/.updated" "$root/var/.updated"
# Each machine gets its own machine ID, and a fresh journal.
echo receiver >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 receiver\n::1 localhost\n' >"$root/etc/hosts"
rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
rm -rf "$root/var/lib/apt/lists" "$root/var/cache/apt" "$root"/var/log/*
mkdir "$root/var/log/journal"
echo "$recipe" >"$out/recipe"
