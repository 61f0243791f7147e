#!/bin/sh
# test/device/qemu.sh: makes build/out/qemu/qemu-system-aarch64, which runs Debian 13's QEMU, whatever this machine has: with
# Debian 12's, a boot takes a fifth longer, and sometimes a processor hangs. Takes seconds, and does nothing if this recipe has
# not changed.
set -eu
out=$PWD/build/out/qemu
recipe=$(sha256sum <"$0")
[ "$(cat "$out/recipe" 2>/dev/null)" != "$recipe" ] || exit 0
rm -rf "$out"
mkdir -p "$out"
# The system is never configured, so it needs no chroot: its own loader runs the program in place, with its own libraries.
TMPDIR=$out mmdebstrap --quiet --format=directory --variant=extract --aptopt='APT::Install-Recommends "false"' \
	--include=qemu-system-arm trixie "$out/root" "$(build/debian-mirror.sh)"
cd "$out"
loader=$(find root/usr/lib* -name 'ld-linux-*' -print -quit)
libraries=$(dirname "$(find root/usr/lib -name libc.so.6 -print -quit)")
cat >qemu-system-aarch64 <<END
#!/bin/sh
here=\${0%/*}
export QEMU_MODULE_DIR="\$here/$libraries/qemu"
exec "\$here/$loader" --library-path "\$here/$libraries" "\$here/root/usr/bin/qemu-system-aarch64" -L "\$here/root/usr/share/qemu" "\$@"
END
chmod 755 qemu-system-aarch64
echo "$recipe" >recipe
