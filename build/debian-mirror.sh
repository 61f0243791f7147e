#!/bin/sh
# build/debian-mirror.sh: prints the mirror of Debian that apt uses on this host.
apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$'
