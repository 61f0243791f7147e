#!/bin/sh
# build/image/board.sh BOARD BASE.tar OUT.tar: the base with the packages of a board, and an initrd. Takes minutes, and changes
# with the board's list of packages, its overlay, and initramfs/.
set -eu
. build/image/binfmt.sh
export SOURCE_DATE_EPOCH=$BASE_EPOCH
board=build/image/boards/$1
# For all boards: vpn-endpoint calls wg(8).
packages="wireguard-tools $(sed 's/#.*//' "$board/packages" 2>/dev/null | tr '\n' ' ')"

# The overlay comes first: it says what belongs in the initrd, and how the packages configure themselves.
mmdebstrap --quiet --format=tar --arch=arm64 --variant=custom --components=main,non-free-firmware \
	--setup-hook="tar -xf $2 -C \"\$1\" --numeric-owner --exclude=./etc/apt/sources.list" \
	--setup-hook="[ ! -d $board/overlay ] || build/image/copy.sh $board/overlay \"\$1\"" \
	--setup-hook='build/image/copy.sh build/image/initramfs "$1/etc/initramfs-tools"' \
	--customize-hook="APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG apt-get --quiet --quiet --yes \
		-o DPkg::Chroot-Directory=\"\$1\" -o DPkg::Options::=--force-confold install $packages" \
	--customize-hook='chroot "$1" update-initramfs -u' \
	trixie "$3.new" "$(build/debian-mirror.sh)"
mv "$3.new" "$3"
