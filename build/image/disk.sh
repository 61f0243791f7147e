#!/bin/sh
# build/image/disk.sh SLOT.ext4 BOOT.vfat DATA OUT.img: makes a disk with a system as A, and the folder DATA as its data
# partition. Its first boot adds the partition for B at the end of the disk, and gives the data partition the space in between
# (overlay/usr/local/sbin/own-disk), so that a card of 8 GB is written in the time that one of 3 GB takes.
#
# The ROM of the Raspberry Pi 3 reads only an MBR, whose four partitions are boot, A, B and data. The state of the boot script
# is at 1 MiB, outside of all of them.
set -eu
# In MiB. The boot partition has room for later boards, because no update changes it.
boot_start=4 boot_size=256 slot_size=2048 data_size=64
a=$((boot_start + boot_size))
data=$((a + slot_size))
rm -f "$4.new"
truncate -s $((data + data_size))M "$4.new"
# own-disk replaces this identifier with one of the disk's own.
printf '%s\n' 'label: dos' 'label-id: 0x52435652' \
	"1: start=${boot_start}MiB, size=${boot_size}MiB, type=c, bootable" "2: start=${a}MiB, size=${slot_size}MiB, type=83" \
	"4: start=${data}MiB, size=${data_size}MiB, type=83" | sfdisk --quiet "$4.new"
[ "$(stat -c %s "$1")" -le $((slot_size * 1048576)) ] || { echo "$1 is larger than a slot: $slot_size MiB" >&2; exit 1; }
dd if="$2" of="$4.new" bs=1M seek=$boot_start conv=notrunc,sparse status=none
dd if="$1" of="$4.new" bs=1M seek=$a conv=notrunc,sparse status=none
# As it is here, so it stays when the partition has grown. At this size mke2fs(8) would choose blocks of 1 KiB, and inodes and a
# journal for a small disk.
mke2fs -q -t ext4 -b 4096 -i 16384 -J size=16 -L data -d "$3" -E offset=$((data * 1048576)) "$4.new" ${data_size}M >/dev/null
# B is not in the order until something is installed there. A has the attempts that RAUC gives a good system.
printf '%s\n' BOOT_ORDER=A BOOT_A_LEFT=14 BOOT_B_LEFT=0 | mkenvimage -s 512 -o "$4.state" -
dd if="$4.state" of="$4.new" bs=512 seek=2048 conv=notrunc status=none
rm "$4.state"
mv "$4.new" "$4"
