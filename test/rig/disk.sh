#!/bin/sh
# test/rig/disk.sh ROOT FOLDER: the disk of one machine, mounted below FOLDER in a mount namespace of its own. ROOT is what
# is on it at first; what is written stays in memory. Prints the machine's number once the disk is there, and holds it until
# its input ends, which it does however its user came to an end. Then nothing of the machine is left.
set -eu
base=$1 folder=$2

# A number that no other machine has, of whatever checkout.
number=1
while exec 9>"/run/lock/receiverd-rig-$number" && ! flock --nonblock 9; do
	number=$((number + 1))
	[ "$number" -lt 255 ] || { echo 'all 254 machines are in use' >&2; exit 1; }
done

mount -t tmpfs -o mode=755 rig "$folder"
cd "$folder"
mkdir upper work root cgroup
mount -t overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" rig root
# systemd wants a subtree of the unified hierarchy.
mount -t cgroup2 rig cgroup
cgroup=$folder/cgroup/receiverd-rig-$number
mkdir -p "$cgroup"
# While the machine is off, what is meant for it goes nowhere else.
for network in "198.18.$number.0/24" "2001:2:0:$number::/64"; do
	ip route replace unreachable "$network" metric 4096
done

echo "$number"
cat >/dev/null

for network in "198.18.$number.0/24" "2001:2:0:$number::/64"; do
	ip route delete unreachable "$network" metric 4096
done
echo 1 >"$cgroup/cgroup.kill"
until grep -q 'populated 0' "$cgroup/cgroup.events"; do sleep 0.02; done
find "$cgroup" -depth -type d -exec rmdir {} +
