#!/bin/sh
# product.sh IMAGE: the card, compressed, with the list of its packages beside it.
set -eu
xz -T0 -1 --stdout "$1" >build/out/receiver-raspberry-pi.img.xz.new
mv build/out/receiver-raspberry-pi.img.xz.new build/out/receiver-raspberry-pi.img.xz
cp build/out/image/raspberry-pi.manifest build/out/receiver-raspberry-pi.manifest
echo build/out/receiver-raspberry-pi.img.xz
