#!/bin/sh
# build/debian-mirror.sh [SUFFIX]: prints the mirror of Debian that apt uses on this host, or that of its security updates (-security).
apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 "/debian$1/\$"
