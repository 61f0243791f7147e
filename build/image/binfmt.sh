# Sourced by other scripts. The kernel hands programs for arm64 to QEMU, so that a chroot with them works. If systemd has not
# registered that, as in a container, it is registered here.
# Everybody may read what is in the root file system.
umask 022
[ "$(id -u)" = 0 ] || { echo 'make image needs root: it makes a root file system' >&2; exit 1; }
# Debian's programs authenticate pointers where the processor can, which QEMU emulates slowly. The A72 cannot.
export QEMU_CPU=cortex-a72
# The time in files that outlive many commits: the first day of Debian 13.
export BASE_EPOCH=1754697600
. build/tools.sh
need 'make image' mmdebstrap:mmdebstrap qemu-aarch64-static:qemu-user-static arch-test:arch-test mke2fs:e2fsprogs sfdisk:fdisk \
	mkfs.vfat:dosfstools mcopy:mtools mkimage:u-boot-tools xz:xz-utils openssl:openssl
binfmt=/proc/sys/fs/binfmt_misc
[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt
[ -e $binfmt/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
# Roots for arm64 have programs of this host while they are made, and the sources of updates.
mmdebstrap() {
	PATH=/native:$PATH command mmdebstrap --setup-hook='build/image/updates.sh >"$1/etc/apt/sources.list.d/updates.list"' \
		--extract-hook='build/image/native.sh add "$1"' "$@" \
		--customize-hook='build/image/native.sh remove "$1" && rm "$1/etc/apt/sources.list.d/updates.list"'
}
