#!/bin/sh
# build/image/native.sh add|remove ROOT: lends a root for arm64 this host's own programs for what its installation does most,
# with their libraries, and takes them away again. Emulated, they take more than half of the time. None of them writes what
# could differ between versions, as those that compress do.
set -eu
folder=/native
# As dpkg-architecture(1) has it, such as x86_64-linux-gnu: for arm64, the root has its own.
libraries=/usr/lib/$(uname -m)-linux-gnu
[ "$(uname -m)" != aarch64 ] || exit 0
# mkinitramfs(8) sets a PATH of its own, and starts a thousand programs.
mkinitramfs=/usr/sbin/mkinitramfs
hook=/etc/dpkg/dpkg.cfg.d/native
case $1 in
add)
	programs=
	for name in dpkg-deb dpkg-split tar rm basename dirname grep sed ln cp mkdir readlink realpath find sort; do
		programs="$programs $(command -v $name)"
	done
	mkdir "$2$folder" "$2/usr/lib64"
	# base-files accepts nothing else; initrds get an empty lib64, too.
	ln -s usr/lib64 "$2/lib64"
	cp --dereference $programs "$2$folder/"
	ldd $programs | grep -o '/lib[^ ]*/[^ ]*' | sort -u | xargs cp --dereference --parents --target-directory="$2"
	# Where apt has dpkg, and so the packages' scripts, look for programs (apt.conf(5)).
	echo "DPkg::Path \"$folder:/usr/sbin:/usr/bin:/sbin:/bin\";" >>"$MMDEBSTRAP_APT_CONFIG"
	lend="sed -i.own 's|^export PATH=.|&$folder:|' $mkinitramfs"
	if [ -e "$2$mkinitramfs" ]; then
		chroot "$2" sh -c "$lend"
	else
		# One dpkg(1) unpacks it, and a later one configures the packages that use it.
		echo "pre-invoke=[ ! -e $mkinitramfs ] || [ -e $mkinitramfs.own ] || $lend" >"$2$hook"
	fi
	;;
remove)
	[ ! -e "$2$mkinitramfs.own" ] || mv "$2$mkinitramfs.own" "$2$mkinitramfs"
	rm -f "$2$hook"
	rm -r "$2$folder" "$2$libraries" "$2/usr/lib64" "$2/lib64"
	;;
esac
