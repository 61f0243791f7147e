#!/bin/sh
# build/image/earlier.sh COMMIT: makes the image of an earlier commit, which takes bundles of the same throw-away keys:
# build/out/image/earlier.img.
set -eu
out=$PWD/build/out/image
tree=$PWD/build/out/earlier
rm -rf "$tree"
mkdir -p "$tree/build/out/image"
git archive "$1" | tar -x -C "$tree"
# The base has no more than Debian's packages, and takes minutes.
for file in base.sh left-out; do
	cmp -s "build/image/$file" "$tree/build/image/$file" || differs=1
done
[ -n "${differs:-}" ] || ln "$out/base.tar" "$tree/build/out/image/base.tar"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$1")
export SOURCE_DATE_EPOCH
# It has a version of its own.
unset VERSION
make -C "$tree" --no-print-directory KEYS="$KEYS" BOARD=virt image
mv "$tree/build/out/image/virt.img" "$out/earlier.img"
rm -rf "$tree"
