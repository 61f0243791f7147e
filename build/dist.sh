#!/bin/sh
# build/dist.sh: build/out/receiverd-VERSION.tar.gz, with all that an image's recipe installs. The same commit gives the
# same bytes (reproducible-builds.org).
set -eu
out=build/out
name=receiverd-$VERSION
tree=$out/$name
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
rm -rf "$tree"
mkdir -p "$tree/package"
cp build/package/* "$tree/package/"
rm "$tree/package/install.mk" "$tree/package/README.md" "$tree/package/CHANGELOG.md"
cp build/package/install.mk "$tree/Makefile"
cp build/package/LICENSE build/package/CHANGELOG.md "$out/receiverd.cjs" "$out/THIRD-PARTY" "$tree/"
node --import tsx build/sbom.ts >"$tree/sbom.cdx.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode='u=rwX,go=rX' \
	-cf - -C "$out" "$name" | gzip -n9 >"$out/$name.tar.gz"
rm -r "$tree"
echo "$out/$name.tar.gz"
