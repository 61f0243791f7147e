#!/bin/sh
# build/image/earlier.sh COMMIT: makes the image of an earlier commit, which takes bundles of the same throw-away keys:
# build/out/image/earlier.img.
set -eu
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "FROM=$1 is no commit here" >&2; exit 1; }
out=$PWD/build/out/image
tree=$PWD/build/out/earlier
rm -rf "$tree"
mkdir -p "$tree/build/out/image"
git archive "$commit" | tar -x -C "$tree"
# The base has no more than Debian's packages, and takes minutes.
for file in base.sh left-out; do
	cmp -s "build/image/$file" "$tree/build/image/$file" || differs=1
done
[ -n "${differs:-}" ] || ln "$out/base.tar" "$tree/build/out/image/base.tar"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
# It has a version of its own.
unset VERSION
make -C "$tree" --no-print-directory KEYS="$KEYS" BOARD=virt image
mv "$tree/build/out/image/virt.img" "$out/earlier.img"
rm -rf "$tree"
