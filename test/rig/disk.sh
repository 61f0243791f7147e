#!/bin/sh
# test/rig/disk.sh BASE FOLDER: mounts the disk of one machine below FOLDER, in the mount namespace that it is started in.
# The disk begins as a copy of BASE; writes to it stay in memory. Prints the machine's number when it is ready.
# Holds the disk until its input ends, which it does even if its parent is killed, and then removes all that is left.
set -eu
base=$1 folder=$2

# The lock makes the number unique on this host.
number=1
while exec 9>"/run/lock/receiverd-rig-$number" && ! flock --nonblock 9; do
	number=$((number + 1))
	[ "$number" -lt 255 ] || { echo 'all 254 machines are in use' >&2; exit 1; }
done

mount -t tmpfs -o mode=755 rig "$folder"
cd "$folder"
mkdir upper work root cgroup
mount -t overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" rig root
# systemd needs a subtree of the unified hierarchy, wherever the host has that.
mount -t cgroup2 rig cgroup
cgroup=$folder/cgroup/receiverd-rig-$number
mkdir -p "$cgroup"
# While the machine is off, packets for it must not leave by the default route.
networks="198.18.$number.0/24 2001:2:0:$number::/64"
for network in $networks; do ip route replace unreachable "$network" metric 4096; done

echo "$number"
cat >/dev/null

echo 1 >"$cgroup/cgroup.kill"
until grep -q 'populated 0' "$cgroup/cgroup.events"; do sleep 0.02; done
find "$cgroup" -depth -type d -exec rmdir {} +
for network in $networks; do ip route delete unreachable "$network" metric 4096; done
