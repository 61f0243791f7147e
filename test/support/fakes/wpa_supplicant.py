"""wpa_supplicant's end of its control socket: python3 wpa_supplicant.py FOLDER ADAPTER FILE [OPERSTATE [ROOT]]

Reads FILE as the daemon does, at its start and on a reconfigure. A line on stdin says what is on the air, as JSON: a list
of {"ssid": hex, "password": "", "level": -50, "flags": "[ESS]"}. Prints a line each time it has joined or left a network, and
writes what the kernel would report about the interface to OPERSTATE. Clients have their sockets under ROOT.
"""
import json
import os
import re
import select
import socket
import sys
import time

folder, adapter, path = sys.argv[1:4]
operstate = sys.argv[4] if len(sys.argv) > 4 else None
root = sys.argv[5] if len(sys.argv) > 5 else ""
air = []
networks = []
current = None
# Lines outside of blocks; the daemon refuses a file with any other, and goes on as before.
GLOBAL = r"\s*($|#|(ctrl_interface|country|update_config|fast_reauth|p2p_disabled)=)"
scans = 0
began = None
# Seconds that a scan takes.
SCAN_S = 1


def escape(ssid):
    special = {0x22: '\\"', 0x5C: "\\\\", 0x1B: "\\e", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    return "".join(special.get(b, chr(b) if 32 <= b <= 126 else "\\x%02x" % b) for b in ssid)


def read():
    found = []
    text = open(path, encoding="utf-8", errors="surrogateescape").read()
    for body in re.findall(r"^network=\{\n(.*?)^\}", text, re.M | re.S):
        values = dict(line.strip().split("=", 1) for line in body.splitlines() if "=" in line)
        ssid = values["ssid"]
        raw = os.fsencode(ssid[1:-1]) if ssid.startswith('"') else bytes.fromhex(ssid)
        sae = values.get("sae_password", "")
        psk = values.get("psk", "")
        found.append({
            "ssid": raw,
            "password": bytes.fromhex(sae).decode() if sae else re.sub(r'^"(.*)".*', r"\1", psk),
            "priority": int(values.get("priority", "0")),
            "eap": "eap" in values,
        })
    return found


def choose():
    global current
    fits = [
        (network["priority"], station["level"], network, station)
        for network in networks
        for station in air
        if bytes.fromhex(station["ssid"]) == network["ssid"] and station.get("password", "") == network["password"]
        and not network["eap"]
    ]
    best = max(fits, key=lambda fit: fit[:2], default=None)
    station = best and best[3]
    if station == current:
        return
    current = station
    if operstate:
        with open(operstate, "w") as file:
            file.write("up\n" if station else "dormant\n")
    print("in", escape(bytes.fromhex(station["ssid"])) if station else "none", flush=True)


def answer(request):
    global networks, scans, began
    words = request.split(" ")
    if words[0] == "PING":
        return "PONG\n"
    if words[0] == "RECONFIGURE":
        text = open(path, encoding="utf-8", errors="surrogateescape").read()
        lines = re.sub(r"^[\w-]+=\{\n.*?^\}", "", text, flags=re.M | re.S).splitlines()
        if not all(re.match(GLOBAL, line) for line in lines):
            return "FAIL\n"
        networks = read()
        choose()
        return "OK\n"
    if words[0] == "STATUS":
        if not current:
            return "wpa_state=SCANNING\naddress=02:00:00:00:00:00\n"
        return "bssid=02:00:00:00:01:00\nssid=%s\nid=0\nwpa_state=COMPLETED\n" % escape(bytes.fromhex(current["ssid"]))
    if words[0] == "SIGNAL_POLL":
        return "RSSI=%d\nLINKSPEED=72\nNOISE=9999\nFREQUENCY=2437\n" % current["level"] if current else "FAIL\n"
    if words[0] == "SCAN":
        scans += 1
        began = time.monotonic()
        print("scan", scans, flush=True)
        return "OK\n"
    if words[0] == "BSS":
        reply = ""
        # All results appear at once, each as old as its beacon, which came at the very start.
        age = time.monotonic() - began if began else 0
        if age < SCAN_S:
            return reply
        for at, station in list(enumerate(air))[int(re.search(r"RANGE=(\d+)-", request)[1]):]:
            end = "####" if at == len(air) - 1 else "===="
            one = "id=%d\nlevel=%d\nage=%d\nflags=%s\nssid=%s\n%s\n" % (
                at, station["level"], age, station.get("flags", "[ESS]"), escape(bytes.fromhex(station["ssid"])), end)
            # The size of the daemon's buffer: results that do not fit are left out.
            if len(reply) + len(one) > 4095:
                break
            reply += one
        return reply
    return "UNKNOWN COMMAND\n"


networks = read()
os.makedirs(folder, exist_ok=True)
at = os.path.join(folder, adapter)
if os.path.exists(at):
    os.unlink(at)
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(at)
print("ready", flush=True)
while True:
    ready, _, _ = select.select([server, sys.stdin], [], [])
    if sys.stdin in ready:
        line = sys.stdin.readline()
        if line == "":
            break
        air = json.loads(line)
        choose()
    if server in ready:
        request, sender = server.recvfrom(4096)
        server.sendto(answer(request.decode()).encode(), root + os.fsdecode(sender))
os.unlink(at)
