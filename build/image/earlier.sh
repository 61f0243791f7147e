#!/bin/sh
# build/image/earlier.sh COMMIT: makes the image of an earlier commit, which takes bundles of the same throw-away keys:
# build/out/image/earlier.img.
set -eu
out=$PWD/build/out/image
tree=$PWD/build/out/earlier
rm -rf "$tree"
mkdir -p "$tree/build/out/image"
git archive "$1" | tar -x -C "$tree"
same() { for path; do diff -qr "$path" "$tree/$path" >/dev/null 2>&1 || return 1; done; }
# Reuses the parts that take minutes, if their sources are the same: the base, which has only Debian's packages, and the board's
# additions.
kept=
if same build/image/base.sh build/image/left-out; then
	ln "$out/base.tar" "$tree/build/out/image/"
	# They may be older than the commit.
	kept=--assume-old=build/out/image/base.tar
	if [ -e "$out/virt.tar" ] && same build/image/board.sh build/image/initramfs build/image/boards/virt; then
		ln "$out/virt.tar" "$tree/build/out/image/"
		kept="$kept --assume-old=build/out/image/virt.tar"
	fi
fi
# Libraries change only with their lock. npm writes its copy of the lock once all of them are installed.
for room in . src/fleet; do
	if [ -e $room/node_modules/.package-lock.json ] && same $room/package-lock.json; then
		cp -Rl $room/node_modules "$tree/$room/"
	fi
done
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$1")
export SOURCE_DATE_EPOCH
# The earlier commit has a version of its own.
unset VERSION
# Images have Debian's Node, not ours.
# shellcheck disable=SC2086
make -C "$tree" --no-print-directory $kept --assume-old=build/out/node-arm64.stamp KEYS="$KEYS" BOARD=virt image
mv "$tree/build/out/image/virt.img" "$out/earlier.img"
rm -rf "$tree"
