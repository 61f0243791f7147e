#!/bin/sh
# build/image/keyring.sh ROOT: whose bundles a receiver installs: those of the authorities in the file KEYRING. Without it, those of
# the throw-away one, and the receiver says so: usr/lib/receiver/test-keys. Neither is in /etc, where what is written later would
# take its place. build/image/keyring.sh check: whether KEYRING can be used.
set -eu
keyring=${KEYRING:-}
fail() { echo "KEYRING=$keyring $1" >&2; exit 1; }
if [ -n "$keyring" ]; then
	openssl x509 -in "$keyring" -noout 2>/dev/null || fail 'is no file of certificates in PEM'
	! grep -q 'PRIVATE KEY' "$keyring" || fail 'has a private key, and every receiver would have it'
fi
[ "$1" != check ] || exit 0
if [ -z "$keyring" ]; then
	build/image/keys.sh "$KEYS"
	keyring=$KEYS/ca.pem
	install -D -m 644 /dev/null "$1/usr/lib/receiver/test-keys"
fi
install -D -m 644 "$keyring" "$1/usr/lib/rauc/keyring.pem"
