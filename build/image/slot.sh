#!/bin/sh
# build/image/slot.sh ROOT OUT.ext4: a root file system as the image of a system, no larger than it must be.
set -eu
size=$(($(du -sm --apparent-size "$1" | cut -f 1) * 115 / 100 + 64))
rm -f "$2"
mke2fs -q -t ext4 -L '' -d "$1" "$2" ${size}M >/dev/null
