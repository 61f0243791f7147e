#!/bin/sh
# test/device/tools.sh: checks that the tools that boot the image are installed.
. build/tools.sh
need 'the test of an image' mmdebstrap:mmdebstrap qemu-img:qemu-utils debugfs:e2fsprogs mcopy:mtools mkimage:u-boot-tools \
	rauc:rauc mksquashfs:squashfs-tools gcc:gcc lintian:lintian tesseract:tesseract-ocr zbarimg:zbar-tools \
	wireguard-go:wireguard-go wg:wireguard-tools
