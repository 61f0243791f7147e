#!/bin/sh
# build/debian-mirror.sh [SUFFIX]: prints the mirror of Debian that apt uses on this host, or that of its security updates
# (-security). In an archive such as snapshot.debian.org, its address ends with a time.
apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -Em 1 "/debian$1/([0-9TZ]+/)?\$"
