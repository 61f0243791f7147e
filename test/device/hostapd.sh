#!/bin/sh
# test/device/hostapd.sh OUT.deb: downloads Debian's hostapd for the emulated board, which needs access points to join. It is
# not in the image.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder
mmdebstrap --quiet --mode=root --variant=custom --arch=arm64 --format=null \
	--customize-hook='cd "$folder" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -o APT::Sandbox::User=root --quiet --quiet download hostapd' \
	trixie /dev/null "$(build/debian-mirror.sh)"
mv "$folder"/hostapd_*.deb "$1"
