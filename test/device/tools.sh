#!/bin/sh
# test/device/tools.sh: whether the tools are there that boot the image.
for tool in qemu-system-aarch64 qemu-img debugfs mcopy mkimage rauc mksquashfs gcc lintian tesseract zbarimg; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || missing="${missing-} $tool"
done
[ -z "${missing-}" ] || {
	echo "not installed:$missing; apt-get install --no-install-recommends qemu-system-arm qemu-utils e2fsprogs mtools u-boot-tools rauc squashfs-tools gcc libc6-dev lintian tesseract-ocr zbar-tools" >&2
	exit 1
}
