#!/bin/sh
# build/image/slot.sh ROOT OUT.ext4: makes the image of a slot from a root file system. The same files of the same commit give
# the same bytes: SOURCE_DATE_EPOCH takes the place of all times, and identifiers come from it and from OUT's name.
#
# It is only mounted read-only, so it has neither a journal nor free space, which an installation would have to write.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH E2FSPROGS_FAKE_TIME="$SOURCE_DATE_EPOCH"
root=$1 out=$2 new=$2.new
# In MiB. A slot has 2,048 for the lifetime of all receivers, so a system that comes near that deserves a look.
limit=1700
trap 'rm -f "$new" "$new.times"' EXIT
rm -f "$new"

# Files that differ each time that a root file system is made, and files that only old ones need.
find "$root/var/log" -type f -delete 2>/dev/null || true
rm -rf "$root"/tmp/* "$root"/var/tmp/* "$root/var/cache/ldconfig/aux-cache"
rm -f "$root"/etc/passwd- "$root"/etc/group- "$root"/etc/shadow- "$root"/etc/gshadow- "$root"/var/lib/dpkg/*-old "$root"/var/cache/debconf/*-old
find "$root" -xdev -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"

# Each inode once, its data in blocks of 4 KiB. A hundredth is for metadata.
set -- $(find "$root" -xdev -printf '%i %s\n' | sort -u | awk '{ inodes++; blocks += int(($2 + 4095) / 4096) } END { print inodes, blocks }')
used=$(($1 + 10)) blocks=$(($2 + $1 / 16 + $2 / 100 + 1024))
[ $((blocks / 256)) -le "$limit" ] || {
	echo "$root needs $((blocks / 256)) MiB, and a system may have $limit: see build/image/left-out" >&2
	exit 1
}
id=$(printf '%s %s' "${new##*/}" "$SOURCE_DATE_EPOCH" | sha256sum | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/')
mke2fs -q -t ext4 -b 4096 -m 0 -N $((used + 64)) -O ^has_journal,^orphan_file,^resize_inode -U "$id" -E "hash_seed=$id" -d "$root" "$new" $blocks >/dev/null
# Older versions of mke2fs also copy the times at which files were made or read.
for inode in $(seq 2 $used); do
	printf 'set_inode_field <%s> %s %s\n' $inode ctime "@$SOURCE_DATE_EPOCH" $inode atime "@$SOURCE_DATE_EPOCH"
done >"$new.times"
debugfs -w -f "$new.times" "$new" >/dev/null 2>&1
mv "$new" "$out"
