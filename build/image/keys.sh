#!/bin/sh
# build/image/keys.sh DIR [NAME]: makes an authority and a signer, once: ca.key, ca.pem, sign.key, sign.pem. They are throw-away
# keys for a build without KEY, CERT and KEYRING: everyone who can read the folder can sign what such receivers install. They
# are not in build/out, because receivers would refuse bundles of new keys that were made after `make clean`.
set -eu
dir=${1:?DIR is missing: build/image/keys.sh DIR [NAME]} name=${2:-receiver test}
dir=${dir%/}
if [ -e "$dir/sign.pem" ]; then
	[ $# -eq 1 ] || echo "$dir has keys already, and they are kept" >&2
	exit 0
fi
[ ! -e "$dir" ] || { echo "$dir exists, and has no keys: remove it, or choose another folder" >&2; exit 1; }
umask 077
mkdir -p "$(dirname "$dir")"
new=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$new"' EXIT
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
key "$new/ca.key"
key "$new/sign.key"
openssl req -x509 -new -key "$new/ca.key" -subj "/CN=$name authority" -days 14600 -out "$new/ca.pem" \
	-addext 'keyUsage=critical,keyCertSign,cRLSign'
openssl req -new -key "$new/sign.key" -subj "/CN=$name signer" -out "$new/sign.csr"
printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n' >"$new/extensions"
openssl x509 -req -in "$new/sign.csr" -CA "$new/ca.pem" -CAkey "$new/ca.key" -days 14600 -extfile "$new/extensions" -out "$new/sign.pem" 2>"$new/log" ||
	{ cat "$new/log" >&2; exit 1; }
rm "$new/sign.csr" "$new/extensions" "$new/log"
# All or nothing. Another build may have been faster.
mv -T "$new" "$dir" 2>/dev/null || [ -e "$dir/sign.pem" ]
