#!/bin/sh
# boot.sh ROOT FOLDER: copies the files that the Pi's own firmware reads, which the package raspi-firmware has gathered. The
# firmware starts U-Boot in place of a kernel.
set -eu
cp -R "$1"/boot/firmware/. "$2/"
rm "$2"/vmlinuz-* "$2"/initrd.img-* "$2/cmdline.txt"
sed -i '/^#/d; /^initramfs /d; s/^kernel=.*/kernel=u-boot.bin/' "$2/config.txt"
cp "$1/usr/lib/u-boot/rpi_arm64/u-boot.bin" "$2/"
echo 'more=console=tty0 console=ttyS1,115200 net.ifnames=0' >"$2/cmdline.env"
# wpa_supplicant starts with the adapter. A link of an overlay may become a file in a checkout.
wants=$1/etc/systemd/system/sys-subsystem-net-devices-wlan0.device.wants
mkdir -p "$wants"
ln -sf /usr/lib/systemd/system/wpa_supplicant@.service "$wants/wpa_supplicant@wlan0.service"
# Replaces all of U-Boot's own settings, and is never written: no wait for keys, and no USB, whose adapters the kernel would
# then find in a state that it does not expect.
printf '%s\n' bootdelay=-2 loadaddr=0x1000000 \
	'bootcmd=setenv devtype mmc; setenv devnum 0; load mmc 0:1 0x2400000 boot.scr && source 0x2400000; reset' |
	mkenvimage -s 0x4000 -o "$2/uboot.env" -
