#!/bin/sh
# product.sh ROOT: a root file system with its kernel and initrd beside it, as QEMU's -kernel takes them.
set -eu
out=build/out/image
cp "$1"/boot/vmlinuz-* $out/vmlinuz
cp "$1"/boot/initrd.img-* $out/initrd.img
rm -f $out/receiver.ext4.new
mke2fs -q -t ext4 -L receiver -d "$1" $out/receiver.ext4.new 2400M >/dev/null
mv $out/receiver.ext4.new $out/receiver.ext4
