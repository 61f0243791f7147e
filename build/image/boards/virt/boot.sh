#!/bin/sh
# boot.sh ROOT FOLDER: QEMU loads U-Boot itself: -bios build/out/image/u-boot.bin.
set -eu
cp "$1/usr/lib/u-boot/qemu_arm64/u-boot.bin" build/out/image/u-boot.bin
echo 'more=console=ttyAMA0' >"$2/cmdline.env"
