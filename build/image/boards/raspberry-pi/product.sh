#!/bin/sh
# product.sh ROOT: a card, as build/out/image/raspberry-pi.img, and compressed as build/out/receiver-raspberry-pi.img.xz, with
# the list of its packages beside it.
# The Pi's own firmware reads the boot partition, which raspi-firmware has filled. Nothing is mounted, so that this works in a
# container.
set -eu
card=build/out/image/raspberry-pi.img
boot=build/out/image/boot.vfat
# In MiB. The boot partition has room for a second kernel, while one is replaced.
start=4 boot_size=256 root_size=2048
rm -f $card.new $boot
# When the adapter is found. A link of an overlay may become a file in a checkout.
wants=$1/etc/systemd/system/sys-subsystem-net-devices-wlan0.device.wants
mkdir -p "$wants"
ln -sf /usr/lib/systemd/system/wpa_supplicant@.service "$wants/wpa_supplicant@wlan0.service"
trap 'rm -f $card.new $boot' EXIT

cp build/image/receiver.txt "$1/boot/firmware/"
truncate -s ${boot_size}M $boot
mkfs.vfat -F 32 -n BOOT $boot >/dev/null
MTOOLS_SKIP_CHECK=1 mcopy -s -i $boot "$1"/boot/firmware/* ::/
rm -rf "$1"/boot/firmware/*

truncate -s $((start + boot_size + root_size))M $card.new
printf 'label: dos\nstart=%sMiB, size=%sMiB, type=c, bootable\nsize=%sMiB, type=83\n' $start $boot_size $root_size |
	sfdisk --quiet $card.new
dd if=$boot of=$card.new bs=1M seek=$start conv=notrunc,sparse status=none
mke2fs -q -t ext4 -L receiver -E offset=$(((start + boot_size) * 1048576)) -d "$1" $card.new ${root_size}M >/dev/null
mv $card.new $card
xz -T0 -1 --stdout $card >build/out/receiver-raspberry-pi.img.xz.new
mv build/out/receiver-raspberry-pi.img.xz.new build/out/receiver-raspberry-pi.img.xz
cp build/out/image/raspberry-pi.manifest build/out/receiver-raspberry-pi.manifest
