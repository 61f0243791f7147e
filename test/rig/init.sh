#!/bin/sh
# test/rig/init.sh FOLDER NUMBER HOST CAPABILITIES: PID 1 of a machine, until systemd takes its place: what a kernel and its drivers would
# have set up. HOST is a process in the network namespace that the machine is to be reached from, CAPABILITIES what it has not.
#
# Nothing of the host must be within reach of the machine's systemd: it would mount, set and clean up there.
set -eu
folder=$1 number=$2 host=$3 capabilities=$4
# The cgroup of the machine is the root of what it sees of them, so a process of it makes that namespace.
if [ -z "${cgroup:-}" ]; then
	export cgroup="$folder/cgroup/receiverd-rig-$number"
	echo 0 >"$cgroup/cgroup.procs"
	exec unshare --cgroup sh "$0" "$@"
fi
# /proc is still the host's.
read -r pid _ </proc/self/stat
echo "$pid"

hostname receiver
ip link set lo up
# A cable to the host. One that an earlier run has left behind goes with its namespace, but not at once.
host() { nsenter --net="/proc/$host/ns/net" "$@"; }
host ip link delete "rig$number" 2>/dev/null || true
ip link add eth0 type veth peer name "rig$number" netns "/proc/$host/ns/net"
# No wait for a second that has the same IPv6 address.
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
host sh -c "echo 0 >/proc/sys/net/ipv6/conf/rig$number/accept_dad"
host ip address add "198.18.$number.1/24" dev "rig$number"
host ip address add "2001:2:0:$number::1/64" dev "rig$number"
host ip link set "rig$number" up

cd "$folder/root"
[ -d usr/lib/systemd ] && [ "$(pwd -P)" != / ]
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o nosuid,nodev,noexec,ro sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o nosuid,mode=755 tmpfs dev
for device in null zero full random urandom tty; do
	touch dev/$device
	mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm
mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs tmp

# The kernel's settings are the host's, but for those of namespaces. systemd-sysctl leaves them alone if it cannot write.
mount --bind proc/sys proc/sys
for own in kernel/hostname kernel/domainname net; do mount --bind proc/sys/$own proc/sys/$own; done
# Each boot has an ID of its own.
cp proc/sys/kernel/random/uuid run/boot-id
mount --bind run/boot-id proc/sys/kernel/random/boot_id
mount -o remount,bind,ro proc/sys

pivot_root . .
umount -l .
exec setpriv --bounding-set="$capabilities" env --ignore-environment "PATH=$PATH" container=rig /usr/lib/systemd/systemd
