#!/bin/sh
# build/image/native.sh add|remove ROOT: lends a root for arm64 this host's own programs for what its installation does most,
# with their libraries, and takes them away again. Emulated, they take more than half of the time. None of them writes what
# could differ between versions, as those that compress do.
set -eu
folder=/native
# As dpkg-architecture(1) has it, such as x86_64-linux-gnu: for arm64, the root has its own.
libraries=/usr/lib/$(uname -m)-linux-gnu
[ "$(uname -m)" != aarch64 ] || exit 0
case $1 in
add)
	programs=
	for name in dpkg-deb dpkg-split tar rm basename grep sed; do
		programs="$programs $(command -v $name)"
	done
	mkdir "$2$folder" "$2/usr/lib64"
	# base-files accepts nothing else; initrds get an empty lib64, too.
	ln -s usr/lib64 "$2/lib64"
	cp --dereference $programs "$2$folder/"
	ldd $programs | grep -o '/lib[^ ]*/[^ ]*' | sort -u | xargs cp --dereference --parents --target-directory="$2"
	# Where apt has dpkg, and so the packages' scripts, look for programs (apt.conf(5)).
	echo "DPkg::Path \"$folder:/usr/sbin:/usr/bin:/sbin:/bin\";" >>"$MMDEBSTRAP_APT_CONFIG"
	;;
remove) rm -r "$2$folder" "$2$libraries" "$2/usr/lib64" "$2/lib64" ;;
esac
