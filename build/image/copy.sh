#!/bin/sh
# build/image/copy.sh FOLDER TO: copies the files of a folder of this checkout into a root file system, where everybody may read
# them, whatever the umask is here and was when the checkout was made. systemd-networkd, for one, is not root.
set -eu
archive=$(mktemp)
trap 'rm -f "$archive"' EXIT
tar -C "$1" --owner=0 --group=0 --mode=u=rwX,go=rX -cf "$archive" .
tar -C "$2" --no-overwrite-dir -xpf "$archive"
