#!/bin/sh
# build/image/updates.sh: prints the sources (sources.list(5)) of what Debian publishes between its point releases, which can be two
# months apart: security updates above all. If apt has no mirror for them on this host, they come from Debian itself.
set -eu
mirror=$(build/debian-mirror.sh)
security=$(build/debian-mirror.sh -security) || security=http://security.debian.org/debian-security/
key=/usr/share/keyrings/debian-archive-keyring.gpg
printf "deb [signed-by=$key] %s %s main non-free-firmware\n" "$mirror" trixie-updates "$security" trixie-security
