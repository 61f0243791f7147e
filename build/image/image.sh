#!/bin/sh
# build/image/image.sh: the base with our packages and overlay/, as build/out/image/{receiver.ext4,vmlinuz,initrd.img}.
set -eu
. build/image/binfmt.sh
out=$PWD/build/out/image
root=$out/root
cleanup() {
	umount "$root/proc" 2>/dev/null || true
	rm -rf --one-file-system "$root"
}
trap cleanup EXIT
cleanup
mkdir -p "$root"
tar -xf "$out/base.tar" -C "$root" --numeric-owner
cp "$out/../receiverd_${VERSION}_all.deb" "$out"/../receiverd-node_*_arm64.deb "$root/"
# No daemon of the image starts here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
chroot "$root" sh -c 'dpkg --install /*.deb' >"$out/install.log" 2>&1 || { cat "$out/install.log" >&2; exit 1; }
umount "$root/proc"
rm "$root"/*.deb "$root/usr/sbin/policy-rc.d"

cp -R build/image/overlay/. "$root/"
chroot "$root" systemctl --quiet enable systemd-networkd.service systemd-timesyncd.service own-name.service
ln -sf /dev/null "$root/etc/systemd/system/systemd-firstboot.service"
# What every device has of its own is made at its first boot (machine-id(5)).
echo uninitialized >"$root/etc/machine-id"
rm -f "$root/etc/hostname" "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed"
rm -rf "$root/var/lib/receiverd" "$root/var/cache/receiverd" "$root/var/lib/apt/lists" "$root/var/cache/apt" "$root"/var/log/*

cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
cp "$root"/boot/initrd.img-* "$out/initrd.img"
rm -f "$out/receiver.ext4.new"
mke2fs -q -t ext4 -L receiver -d "$root" "$out/receiver.ext4.new" 1200M >/dev/null
mv "$out/receiver.ext4.new" "$out/receiver.ext4"
