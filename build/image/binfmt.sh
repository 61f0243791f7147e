# To be sourced: the kernel hands programs for arm64 to QEMU, so that a chroot of theirs works. Where no systemd has
# registered that, as in a container, it is done here.
[ "$(id -u)" = 0 ] || { echo 'make image needs root: it makes a root file system' >&2; exit 1; }
# Debian's programs authenticate pointers where the processor can, which QEMU emulates slowly. The A72 cannot.
export QEMU_CPU=cortex-a72
# For what has a time in it and outlives many commits: the first day of Debian 13.
export BASE_EPOCH=1754697600
missing=
for tool in mmdebstrap qemu-aarch64-static arch-test mke2fs sfdisk mkfs.vfat mcopy mkimage xz; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || missing="$missing $tool"
done
[ -z "$missing" ] || {
	echo "make image needs$missing: apt-get install mmdebstrap qemu-user-static arch-test e2fsprogs fdisk dosfstools mtools u-boot-tools xz-utils" >&2
	exit 1
}
binfmt=/proc/sys/fs/binfmt_misc
[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt
[ -e $binfmt/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
