# SPDX-License-Identifier: MIT

DOCUMENTATION = r"""
name: receiverd
short_description: Screen-mirroring receivers, from a fleet file or from the network
version_added: 0.1.0
author: receiverd maintainers (!UNKNOWN)
description:
  - The devices in the file of C(receiverd-fleet), with their groups, and with the settings that they should have.
  - Its own file is named C(receiverd.yml), or ends with C(.receiverd.yml), also with C(.yaml).
  - C(receiverd-fleet) reads the fleet file, so both report the same mistakes. No device is asked, and no key is read.
  - In the name of a group, Ansible replaces each hyphen with an underscore, so C(floor-4) becomes C(floor_4).
  - A host has C(receiverd_address), C(receiverd_settings), C(receiverd_groups), and if the fleet file has them,
    C(receiverd_pin), C(receiverd_ca_path), C(receiverd_serial), and where its key is, C(receiverd_key_file) with
    C(receiverd_device), C(receiverd_key_env), or C(receiverd_key). These are the options of
    M(receiverd.receiverd.receiverd_system).
  - That module runs on this computer, so the hosts have C(ansible_connection=local). C(ansible_pipelining=true) keeps its options
    out of files.
  - A key or a password that stands in the fleet file itself is printed by C(ansible-inventory --list). Name files of keys there,
    and leave passwords to Ansible Vault, if others see that.
extends_documentation_fragment:
  - constructed
options:
  plugin:
    description: The name of this plugin.
    required: true
    choices: [receiverd.receiverd.receiverd]
  fleet:
    description: The fleet file. A relative path starts at the folder of this file.
    type: str
  discover:
    description:
      - Whether to add the receivers on this network that are not in the fleet file. Needs avahi-utils, and avahi-daemon running.
      - A device on the network can claim any name and any pin, so they have C(receiverd_claimed_pin) and
        C(receiverd_claimed_groups), and no key. They are in the group C(GROUP_discovered), and in no other. Verify them with a
        I(ca_path), or compare the pins and put the devices into the fleet file.
    type: bool
    default: false
  group:
    description: The group that all devices of the fleet file are in.
    type: str
    default: receivers
  program:
    description: The program C(receiverd-fleet), or its path if it is not in C(PATH).
    type: str
    default: receiverd-fleet
requirements:
  - C(receiverd-fleet), of the same version.
seealso:
  - module: receiverd.receiverd.receiverd_system
"""

EXAMPLES = r"""
# receiverd.yml, beside fleet.yaml
plugin: receiverd.receiverd.receiverd
fleet: fleet.yaml
---
# The devices of the network, and a group for each model.
plugin: receiverd.receiverd.receiverd
discover: true
keyed_groups:
  - key: receiverd_model
    prefix: model
"""

import json
import os
import re
import subprocess
import sys

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.utils.unsafe_proxy import wrap_var

TIMEOUT_S = 60
LOCAL = {
    "ansible_connection": "local",
    "ansible_pipelining": True,
    "ansible_python_interpreter": sys.executable,
}
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
MAX_NAME = 60


class InventoryModule(BaseInventoryPlugin, Constructable):
    NAME = "receiverd.receiverd.receiverd"

    def verify_file(self, path):
        """Whether a file, by its name, is for this plugin."""
        return super().verify_file(path) and path.endswith(("receiverd.yml", "receiverd.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        fleet, discovers = self.get_option("fleet"), self.get_option("discover")
        if not fleet and not discovers:
            raise AnsibleParserError(f"{path}: give fleet: fleet.yaml, or discover: true")
        devices = []
        if fleet:
            fleet = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(fleet))
            devices = self._ask(["inventory", "--fleet", fleet])
            self._add_fleet(devices)
        if discovers:
            self._add_found(self._ask(["discover", "--json"]), devices)

    def _ask(self, args):
        """Runs the program, and returns the JSON that it prints."""
        program = self.get_option("program")
        try:
            done = subprocess.run(
                [program, *args], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            raise AnsibleParserError(f"there is no program {program}: install the package receiverd-fleet, or give program: PATH")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AnsibleParserError(f"{program} {args[0]}: {error}")
        if done.returncode != 0:
            raise AnsibleParserError(done.stderr.strip() or f"{program} {args[0]}: exit status {done.returncode}")
        return json.loads(done.stdout)

    def _add_fleet(self, devices):
        everybody = self._sanitize_group_name(self.get_option("group"))
        self.inventory.add_group(everybody)
        known = {everybody: f"group: {everybody}, of this inventory"}
        for device in devices:
            name = device["name"]
            self.inventory.add_host(name, everybody)
            for group in device["groups"]:
                safe = self._sanitize_group_name(group)
                # Ansible writes an underscore for several characters, and before a digit at the beginning.
                if known.setdefault(safe, group) != group:
                    raise AnsibleParserError(f'to Ansible, the groups "{known[safe]}" and "{group}" are both {safe}: rename one of them')
                self.inventory.add_host(name, self.inventory.add_group(safe))
            key = device.get("key", {})
            self._set(
                name,
                {
                    "address": device.get("address"),
                    "serial": device.get("serial"),
                    "pin": device.get("pin"),
                    "ca_path": device.get("ca"),
                    "key": key.get("text"),
                    "key_file": key.get("file"),
                    "key_env": key.get("env"),
                    "device": key.get("device"),
                    "groups": device["groups"],
                    "settings": device["settings"],
                },
            )

    def _add_found(self, receivers, devices):
        group = self._sanitize_group_name(f"{self.get_option('group')}_discovered")
        self.inventory.add_group(group)
        serials = {device["serial"] for device in devices if "serial" in device}
        pins = {device["pin"] for device in devices if "pin" in device}
        for receiver in receivers:
            pin = f"sha256//{receiver['pin']}" if receiver["pin"] else None
            if pin in pins or receiver["serial"] in serials or not receiver["addresses"]:
                continue
            hostname = re.sub(r"\.local\.?$", "", receiver["hostname"])
            name = NOT_IN_NAMES.sub("-", hostname).lstrip("._-")[:MAX_NAME] or "receiver"
            if name in self.inventory.hosts:
                self.display.warning(f"a receiver at {receiver['addresses'][0]} has the name of another one, {name}: it is left out")
                continue
            self.inventory.add_host(name, group)
            host = receiver["addresses"][0]
            self._set(
                name,
                {
                    # Never http: anyone who announces a device would get its key in clear.
                    "address": f"https://{'[' + host + ']' if ':' in host else host}:{receiver['port']}",
                    "serial": receiver["serial"],
                    "model": receiver["model"],
                    "claimed_pin": pin,
                    "claimed_groups": receiver["groups"],
                    "settings": {},
                },
            )

    def _set(self, name, variables):
        for key, value in LOCAL.items():
            self.inventory.set_variable(name, key, value)
        for key, value in variables.items():
            if value is not None and value != "":
                self.inventory.set_variable(name, f"receiverd_{key}", literal(value))
        every, strict = self.inventory.hosts[name].get_vars(), self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), every, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), every, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), every, name, strict=strict)


def literal(value):
    """The same value, which Ansible does not take for a template: a device on the network may claim anything."""
    if isinstance(value, dict):
        return {key: literal(member) for key, member in value.items()}
    if isinstance(value, list):
        return [literal(member) for member in value]
    return wrap_var(value) if isinstance(value, str) and "{" in value else value
