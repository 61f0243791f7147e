"""
The network between a machine and its clients, as bad as it is told to be. Two TUN interfaces, one of which is moved into the
machine's network namespace, and packets between them that are lost, late, out of order, or all swallowed.

    bad-network.py HERE THERE PID SEED

Prints a line when both are there. Each line on its input is a JSON object with the conditions from then on: `loss` (0 to 1),
`delayMs` (each way), `jitterMs` (up to so much more, so that packets overtake each other), `swallows`. Ends with its input.
"""
import fcntl, heapq, json, os, random, select, struct, subprocess, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
here, there, pid, seed = sys.argv[1:]
chance = random.Random(int(seed))


def open_tun(name):
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return file


ends = [open_tun(here), open_tun(there)]
subprocess.run(["ip", "link", "set", there, "netns", f"/proc/{pid}/ns/net"], check=True)
print("ready", flush=True)

conditions = {"loss": 0, "delayMs": 0, "jitterMs": 0, "swallows": False}
# When to pass a packet on; the number keeps the order of those that are due at the same time.
waiting, number = [], 0
while True:
    pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for file in select.select([0, *ends], [], [], pause)[0]:
        if file == 0:
            line = sys.stdin.readline()
            if not line:
                sys.exit()
            conditions.update(json.loads(line))
            continue
        try:
            packet = os.read(file, 65536)
        except OSError:
            # The interface is down.
            continue
        if conditions["swallows"] or chance.random() < conditions["loss"]:
            continue
        late = conditions["delayMs"] + chance.random() * conditions["jitterMs"]
        number += 1
        heapq.heappush(waiting, (time.monotonic() + late / 1000, number, ends[1 - ends.index(file)], packet))
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, file, packet = heapq.heappop(waiting)
        try:
            os.write(file, packet)
        except OSError:
            pass
