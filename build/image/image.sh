#!/bin/sh
# build/image/image.sh: adds our packages, overlay/ and the board's own overlay to the board's base, and makes a disk of it:
# build/out/image/BOARD.img, with its system beside it, BOARD.ext4, from which a bundle is made.
set -eu
. build/image/binfmt.sh
# The same commit gives the same bytes (slot.sh), also in what programs in the chroot write.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
out=$PWD/build/out/image
board=build/image/boards/$BOARD
root=$out/root
# The boot partition's files, and those of the data partition.
work=$out/work
cleanup() {
	umount "$root/proc" "$root/usr/lib/aarch64-linux-gnu/gstreamer-1.0" 2>/dev/null || true
	rm -rf --one-file-system "$root" "$work"
}
trap cleanup EXIT
cleanup
[ -z "$(find "$out/base.tar" -mtime +7)" ] ||
	echo "Debian's packages are of $(date -r "$out/base.tar" +%F); for its updates since: rm build/out/image/base.tar"
mkdir -p "$root" "$work/boot" "$work/data"
tar -xf "$out/$BOARD.tar" -C "$root" --numeric-owner
for package in receiverd receiverd-mirroring receiverd-tls receiverd-update; do
	cp "$out/../${package}_${VERSION}_all.deb" "$root/"
done
# No daemon of the image starts here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
# The base has only the copyright files of /usr/share/doc, but the notices of the bundle belong in the image.
chroot "$root" sh -c "dpkg --path-include='/usr/share/doc/receiverd*' --install /*.deb" >"$out/install.log" 2>&1 || { cat "$out/install.log" >&2; exit 1; }
chroot "$root" dpkg-query --show --showformat='${Package} ${Version} ${Architecture}\n' >"$out/$BOARD.manifest"
umount "$root/proc"
rm "$root"/*.deb "$root/usr/sbin/policy-rc.d"

build/image/copy.sh build/image/overlay "$root"
[ ! -d "$board/overlay" ] || build/image/copy.sh "$board/overlay" "$root"
# Before programs copy these times into lists.
find "$root" -xdev -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
# GStreamer's list of plugins, which their first user would have to make: on a small board that takes a minute. The list has the
# order in which the folder lists its files, and only a tmpfs lists them in the same order each time.
plugins=$root/usr/lib/aarch64-linux-gnu/gstreamer-1.0
cp -Rp "$plugins" "$work/plugins"
mount -t tmpfs -o mode=755 plugins "$plugins"
for plugin in "$work"/plugins/*; do cp -p "$plugin" "$plugins/"; done
chroot "$root" env GST_REGISTRY=/gstreamer.bin gst-inspect-1.0 >/dev/null 2>&1
umount "$plugins"
for user in uxplay weston; do
	chroot "$root" install -D -o $user -g $user -m 644 /gstreamer.bin /var/cache/$user/gstreamer.bin
	chroot "$root" chown $user: /var/cache/$user
done
rm "$root/gstreamer.bin"
chroot "$root" fc-cache --force
# As systemd would at a first boot.
chroot "$root" systemctl --quiet preset-all
# systemd-resolved has the name servers from networkd; mmdebstrap has left those of this machine.
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
chroot "$root" systemctl --quiet enable systemd-networkd.service systemd-resolved.service systemd-timesyncd.service own-name.service own-disk.service own-vpn.service vpn-endpoint.timer systemd-journal-upload.service
# Nobody is there to answer questions, and a receiver without a network works, too.
for unit in systemd-firstboot.service systemd-networkd-wait-online.service e2scrub_reap.service; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# Nothing for ConditionNeedsUpdate= to rebuild at boot (systemd-update-done.service(8)).
touch "$root/etc/.updated" "$root/var/.updated"
# Everything that differs between devices is made at the first boot. Empty, and not `uninitialized` (machine-id(5)): systemd would
# apply the presets again, which takes a sixth of that boot.
: >"$root/etc/machine-id"
rm -f "$root/etc/hostname" "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed"
rm -rf "$root/var/lib/receiverd" "$root/etc/receiverd/tls" "$root/var/cache/receiverd" "$root/etc/apt/sources.list" "$root/var/lib/apt/lists" "$root/var/cache/apt" "$root"/var/log/*

# Without receiverd-tls, nginx's own configuration needs this folder.
mkdir -p "$root/var/log/nginx"

# Where the initrd mounts the data partition, and links to what it finds out (initramfs/scripts/init-bottom/receiver).
mkdir -p "$root/data" "$root/boot/firmware"
ln -s ../run/fw_env.config "$root/etc/fw_env.config"
ln -s ../run/u-boot-initial-env "$root/etc/u-boot-initial-env"
# The boot script loads these.
ln -s "$(cd "$root/boot" && ls vmlinuz-*)" "$root/boot/vmlinuz"
ln -s "$(cd "$root/boot" && ls initrd.img-*)" "$root/boot/initrd.img"
printf 'IMAGE_ID=receiver\nIMAGE_VERSION=%s\n' "$VERSION" >>"$root/usr/lib/os-release"
sed -i "s/@COMPATIBLE@/receiver-$BOARD/" "$root/usr/lib/rauc/system.conf"
build/image/keyring.sh "$root"

"$board/boot.sh" "$root" "$work/boot"
rm -rf "$root/usr/lib/u-boot" "$root"/boot/firmware/*
cp build/image/receiver.txt "$work/boot/"
mkimage -A arm64 -T script -C none -n receiver -d build/image/boot.cmd "$work/boot/boot.scr" >/dev/null
truncate -s 256M "$work/boot.vfat"
mkfs.vfat -F 32 -n BOOT "$work/boot.vfat" >/dev/null
MTOOLS_SKIP_CHECK=1 mcopy -s -i "$work/boot.vfat" "$work"/boot/* ::/

# RAUC's own record of the preinstalled system.
(umask 077 && mkdir "$work/data/rauc" "$work/data/update" "$work/data/orders" "$work/data/provisioned")
printf '[slot.rootfs.0]\nbundle.compatible=receiver-%s\nbundle.version=%s\nstatus=ok\n' "$BOARD" "$VERSION" >"$work/data/rauc/central.raucs"
build/image/slot.sh "$root" "$out/$BOARD.ext4"
build/image/disk.sh "$out/$BOARD.ext4" "$work/boot.vfat" "$work/data" "$out/$BOARD.img"
if [ -e "$board/product.sh" ]; then "$board/product.sh" "$out/$BOARD.img"; else echo "build/out/image/$BOARD.img"; fi
