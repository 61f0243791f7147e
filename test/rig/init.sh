#!/bin/sh
# test/rig/init.sh FOLDER NUMBER HOST CAPABILITIES [CMDLINE]: PID 1 of a machine until it becomes systemd. Sets up what a kernel and its
# drivers would have. HOST is a process in the network namespace at the other end of the cable. CAPABILITIES are dropped, in
# the notation of setpriv(1). CMDLINE is that of its kernel.
#
# systemd mounts, sets and cleans up whatever it can reach. So it must reach nothing of the host: each step that fails ends
# the script.
set -eu
folder=$1 number=$2 host=$3 capabilities=$4 cmdline=${5-}
# The root of a cgroup namespace is the cgroup of the process that creates it.
if [ -z "${cgroup:-}" ]; then
	export cgroup="$folder/cgroup/receiverd-rig-$number"
	echo 0 >"$cgroup/cgroup.procs"
	exec unshare --cgroup sh "$0" "$@"
fi
# /proc is still the host's, and so is this PID.
read -r pid _ </proc/self/stat
echo "$pid"

hostname receiver
ip link set lo up
# The cable of the previous boot is destroyed with its namespace, but only some time later.
host() { nsenter --net="/proc/$host/ns/net" "$@"; }
host ip link delete "rig$number" 2>/dev/null || true
ip link add eth0 type veth peer name "rig$number" netns "/proc/$host/ns/net"
# Duplicate address detection would delay IPv6 by a second.
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
host sh -c "echo 0 >/proc/sys/net/ipv6/conf/rig$number/accept_dad"
host ip address add "198.18.$number.1/24" dev "rig$number"
host ip address add "2001:2:0:$number::1/64" dev "rig$number"
host ip link set "rig$number" up

cd "$folder/root"
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

# Kernel settings are shared with the host, except those that belong to a namespace. systemd-sysctl skips read-only ones.
mount --bind proc/sys proc/sys
for own in kernel/hostname kernel/domainname net; do mount --bind proc/sys/$own proc/sys/$own; done
# Each boot gets its own ID.
cp proc/sys/kernel/random/uuid run/boot-id
mount --bind run/boot-id proc/sys/kernel/random/boot_id
mount -o remount,bind,ro proc/sys
if [ -n "$cmdline" ]; then
	echo "$cmdline" >run/cmdline
	mount --bind run/cmdline proc/cmdline
fi

pivot_root . .
umount -l .
# As systemd-nspawn(1) does it for a container: a credential that systemd mounts for a service must appear in its namespace.
mount --make-rshared /
# In a container, systemd takes its own arguments for the kernel's.
exec setpriv --bounding-set="$capabilities" env --ignore-environment "PATH=$PATH" container=rig /usr/lib/systemd/systemd $cmdline
