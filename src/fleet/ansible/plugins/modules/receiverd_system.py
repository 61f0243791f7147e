#!/usr/bin/python
# SPDX-License-Identifier: MIT

DOCUMENTATION = r"""
module: receiverd_system
short_description: Settings of a screen-mirroring receiver
version_added: 0.1.0
author: receiverd maintainers (!UNKNOWN)
description:
  - Gives a receiver the settings that it should have, as far as they differ. Other settings stay as they are.
  - The device checks all of them before it changes any, and takes all of them or none.
  - A change of host name, network or Wi-Fi is on trial. The device undoes it by itself unless this module reaches the device
    again in time, on a new connection.
  - If the answer to a change is lost, the module first finds out whether the change was made.
options:
  address:
    description:
      - Where the device is, as C(HOST), C(HOST:PORT), C(https://HOST:PORT) or C(http://HOST:PORT).
      - C(http:) sends the key in clear, for everybody on the network to read.
      - The module looks for the device nowhere else, so the device undoes a change that makes it leave this address or name.
        C(receiverd-fleet apply) follows it if it knows the pin.
    type: str
    required: true
  settings:
    description:
      - The settings that it should have, as C(PATCH /api/v1/system) accepts them (RFC 7396). A list is one value.
      - A password cannot be read from a device, so it cannot be compared. It is sent each time, and the device notices if it
        already has it. In check mode it counts as a change.
      - No result and no log contains passwords or the queries of URLs.
    type: dict
    required: true
  pin:
    description:
      - The pin of the device's key, C(sha256//BASE64), as C(receiverd key show --verbose), the screen and the fleet file show it.
      - Or the SHA-256 fingerprint of its certificate, which changes when that is renewed.
      - Without I(pin) and I(ca_path), an authority that this computer trusts must have signed the certificate of the device.
    type: str
  ca_path:
    description:
      - A file with certificates (PEM) of the authority that signed those of the devices, or a folder of them as OpenSSL reads it.
      - The name or the address in I(address) must be in the certificate of the device.
    type: path
  key:
    description:
      - The API key of the device, or a token that may read and write its settings.
      - Without I(key) and I(key_file), it comes from the environment, see I(key_env).
    type: str
  key_file:
    description:
      - A file with the key or the token, which nobody else may be able to read (mode 0600).
      - With I(device), a file with a line C(NAME,KEY) for each device, such as the C(keys.csv) of a fleet. In a line
        C(NAME,KEY,NEXT), which C(receiverd-fleet rotate-keys) has written, either key may be in force, and both are tried.
    type: path
  device:
    description: The name of the device in I(key_file).
    type: str
  key_env:
    description: The environment variable that has the key or the token, where the module runs.
    type: str
    default: RECEIVERD_KEY
  confirm_within:
    description:
      - Seconds that the change is on trial, 5 to 600. The device undoes it unless the module reaches the device again by then.
      - Without it, only a change that can cut the device off is on trial, for as long as the device proposes.
    type: int
  timeout:
    description: Seconds that the device has for an answer, 1 to 600. A change has four times as long.
    type: int
    default: 10
requirements:
  - Python 3.9 or later where it runs, and nothing else.
notes:
  - It does not run on a device, but on a computer that reaches it. The inventory plugin C(receiverd.receiverd.receiverd) has each
    host run it on this one, with C(ansible_connection=local). With another inventory, say C(connection=local) or
    C(delegate_to=localhost). There, Ansible runs it in its own process, which takes a tenth of the time.
attributes:
  check_mode:
    support: full
    description: The device checks the settings, and says what would change. Nothing is changed.
  diff_mode:
    support: full
    description: Shows the differences, but no secret.
"""

EXAMPLES = r"""
- name: The settings of the fleet file, two devices first, then ten, then the rest
  hosts: receivers
  gather_facts: false
  serial: [2, 10, "100%"]
  max_fail_percentage: 0
  tasks:
    - name: Settings
      receiverd.receiverd.receiverd_system:
        address: "{{ receiverd_address }}"
        pin: "{{ receiverd_pin | default(omit) }}"
        ca_path: "{{ receiverd_ca_path | default(omit) }}"
        key_file: "{{ receiverd_key_file | default(omit) }}"
        device: "{{ receiverd_device | default(omit) }}"
        key_env: "{{ receiverd_key_env | default(omit) }}"
        key: "{{ receiverd_key | default(omit) }}"
        settings: "{{ receiverd_settings }}"
        confirm_within: 60

- name: Another NTP server, for one device, on trial
  receiverd.receiverd.receiverd_system:
    address: 192.0.2.11
    pin: sha256//4PXXvbVXxkEVMn2ANYHDA3OyvbLW0XXIOo59unw7KWE=
    settings:
      ntp: { enabled: true, servers: [ntp.example.org] }
    confirm_within: 60
  delegate_to: localhost
  environment:
    RECEIVERD_KEY: "{{ lobby_key }}"
"""

RETURN = r"""
changes:
  description: The values that differ, or that were sent again because a secret in them cannot be compared. Lists are whole.
  returned: success
  type: list
  elements: dict
  contains:
    pointer:
      description: Where the value is in the settings, as a JSON pointer (RFC 6901).
      type: str
      sample: /ntp/servers
    before:
      description: What the device had; null for nothing. A password reads as C(set).
      type: raw
      sample: []
    after:
      description: What it should have.
      type: raw
      sample: [ntp.example.org]
note:
  description: Present if only values with secrets are sent, which cannot be compared.
  returned: sometimes
  type: str
errors:
  description: What the device refuses.
  returned: when the device refuses settings
  type: list
  elements: dict
  contains:
    pointer:
      description: Where the value is in the settings, as a JSON pointer.
      type: str
      sample: /ntp/servers/0
    detail:
      description: Why it is refused, and what would be accepted.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.receiverd.receiverd.plugins.module_utils.client import ReceiverError
from ansible_collections.receiverd.receiverd.plugins.module_utils.task import OPTIONS, carry_out, failure, secrets_of


def main():
    module = AnsibleModule(supports_check_mode=True, **OPTIONS)
    # A result shows the other values of the settings.
    module.no_log_values.clear()
    module.no_log_values.update(secrets_of(module.params))
    try:
        result = carry_out(module.params, os.environ, is_check=module.check_mode, has_diff=module._diff)
    except ReceiverError as error:
        module.fail_json(**failure(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
