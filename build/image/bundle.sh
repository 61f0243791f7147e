#!/bin/sh
# build/image/bundle.sh check: checks that a bundle can be made and signed. build/image/bundle.sh SLOT.ext4 OUT.raucb: makes a
# bundle for RAUC from the image of a slot, of VERSION and for BOARD, signed by KEY and CERT, and verified by KEYRING, if it is
# set. LEVEL is zstd's, for tests that do not need a small bundle.
set -eu
export PATH="$PATH:/usr/sbin:/sbin"
fail() { echo "$1" >&2; exit 1; }
. build/tools.sh
need 'make bundle' rauc:rauc mksquashfs:squashfs-tools openssl:openssl
# Receivers compare versions, and refuse older ones.
number='(0|[1-9][0-9]*)' part='[0-9A-Za-z-]+'
printf %s "$VERSION" | grep -Eqx "$number\.$number\.$number(-$part(\.$part)*)?(\+$part(\.$part)*)?" ||
	fail "VERSION=$VERSION is not a version as in SemVer, such as 1.1.0 or 1.1.0-rc.1"
key=${KEY:-} cert=${CERT:-} keyring=${KEYRING:-}
case ${key:+key}${cert:+cert} in
keycert)
	[ -n "$keyring" ] || fail 'with KEY= and CERT=, make bundle needs KEYRING=, too: without it, receivers that install the bundle trust the throw-away keys, and refuse your next one'
	;;
'')
	[ -z "$keyring" ] || fail 'with KEYRING=, make bundle needs KEY= and CERT= of a signer that it trusts'
	build/image/keys.sh "$KEYS"
	key=$KEYS/sign.key cert=$KEYS/sign.pem keyring=$KEYS/ca.pem
	;;
*) fail 'make bundle takes both KEY= and CERT=, or neither: then throw-away keys sign' ;;
esac
case $key in
pkcs11:*) ;;
*) [ -r "$key" ] || fail "KEY=$key cannot be read. It is a file, or an address of a token: pkcs11:token=…;object=…" ;;
esac
[ -r "$cert" ] || case $cert in pkcs11:*) ;; *) fail "CERT=$cert cannot be read" ;; esac
build/image/keyring.sh check
# RAUC would say so only at the end, minutes later. Keys of tokens and encrypted ones are left to it.
if [ -r "$cert" ]; then
	public=$(openssl x509 -in "$cert" -noout -pubkey 2>/dev/null) || fail "CERT=$cert is not a certificate in PEM"
	[ ! -r "$key" ] || grep -q 'PRIVATE KEY' "$key" || fail "KEY=$key is not a private key in PEM"
	own=$(openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null) || own=$public
	[ "$own" = "$public" ] || fail "KEY=$key does not belong to CERT=$cert"
	why=$(openssl verify -CAfile "$keyring" -untrusted "$cert" -purpose smimesign "$cert" 2>&1) ||
		fail "CERT=$cert is not trusted by KEYRING=$keyring: $(printf '%s\n' "$why" | sed -n 's/^error [0-9]* at .*lookup: *//p' | head -n 1)"
fi
[ "$1" != check ] || exit 0

work=$(mktemp -d "$2.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/in"
ln "$1" "$work/in/rootfs.ext4" 2>/dev/null || cp --sparse=always "$1" "$work/in/rootfs.ext4"
cat >"$work/in/manifest.raucm" <<END
[update]
compatible=receiver-$BOARD
version=$VERSION

[bundle]
format=verity

[image.rootfs]
filename=rootfs.ext4
END
# A receiver reads a bundle once, from its beginning to its end: large blocks cost it nothing.
rauc bundle --cert="$cert" --key="$key" ${keyring:+--keyring="$keyring"} \
	--mksquashfs-args="-comp zstd -Xcompression-level ${LEVEL:-19} -b 1M -quiet -no-progress" "$work/in" "$work/bundle" >"$work/log" 2>&1 ||
	{ cat "$work/log" >&2; exit 1; }
mv "$work/bundle" "$2"
echo "$2"
