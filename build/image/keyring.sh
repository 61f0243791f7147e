#!/bin/sh
# build/image/keyring.sh ROOT: installs the authorities whose bundles a receiver accepts, from the file KEYRING. Without it,
# installs the throw-away authority and usr/lib/receiver/test-keys, so that the receiver reports it. Neither is in /etc, where a
# later write would cover it. build/image/keyring.sh check: checks that KEYRING can be used.
set -eu
keyring=${KEYRING:-}
fail() { echo "KEYRING=$keyring $1" >&2; exit 1; }
if [ -n "$keyring" ]; then
	openssl x509 -in "$keyring" -noout 2>/dev/null || fail 'is not a file of certificates in PEM'
	! grep -q 'PRIVATE KEY' "$keyring" || fail 'has a private key, and every receiver would have it'
fi
[ "$1" != check ] || exit 0
if [ -z "$keyring" ]; then
	build/image/keys.sh "$KEYS"
	keyring=$KEYS/ca.pem
	install -D -m 644 /dev/null "$1/usr/lib/receiver/test-keys"
fi
install -D -m 644 "$keyring" "$1/usr/lib/rauc/keyring.pem"
