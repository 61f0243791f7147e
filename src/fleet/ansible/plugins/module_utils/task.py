# SPDX-License-Identifier: MIT
"""The task receiverd_system: its options, what it does, and its result. For the module, and for the action plugin."""

from ansible_collections.receiverd.receiverd.plugins.module_utils.change import LOST_FACTOR, Change, Comparison, secrets_in
from ansible_collections.receiverd.receiverd.plugins.module_utils.client import (
    CREDENTIAL,
    Client,
    Endpoint,
    Trust,
    WrongCall,
    credentials_in,
)

OPTIONS = {
    "argument_spec": {
        "address": {"type": "str", "required": True},
        # Keeps all settings out of the journal, and out of an error about the options.
        "settings": {"type": "dict", "required": True, "no_log": True},
        "pin": {"type": "str"},
        "ca_path": {"type": "path"},
        "key": {"type": "str", "no_log": True},
        "key_file": {"type": "path", "no_log": False},
        "device": {"type": "str"},
        "key_env": {"type": "str", "default": "RECEIVERD_KEY", "no_log": False},
        "confirm_within": {"type": "int"},
        "timeout": {"type": "int", "default": 10},
    },
    "mutually_exclusive": [("pin", "ca_path"), ("key", "key_file")],
    "required_by": {"device": "key_file"},
}
CONFIRM_S = (5, 600)
TIMEOUT_S = (1, 600)
ONLY_SECRETS = "only values with secrets are sent, which cannot be compared"


def carry_out(params, env, is_check, has_diff):
    """Returns the result. Raises `ReceiverError`."""
    within("confirm_within", params["confirm_within"], CONFIRM_S)
    within("timeout", params["timeout"], TIMEOUT_S)
    endpoint = Endpoint(params["address"])
    trust = Trust(endpoint, params["pin"], params["ca_path"])
    client = Client(endpoint, trust, credentials_of(params, env), params["timeout"])
    comparison = Comparison(client, params["settings"])
    is_changed = is_due = bool(comparison.patch)
    if is_due and not is_check:
        is_changed = Change(client, comparison, params["confirm_within"] or 0, LOST_FACTOR * params["timeout"]).make()
    result = {"changed": is_changed, "changes": comparison.changes() if is_changed else []}
    if is_due and comparison.is_hidden:
        result["note"] = ONLY_SECRETS
    if has_diff:
        sides = comparison.diff() if is_changed else {"before": {}, "after": {}}
        # Ansible shows it before it names the host.
        result["diff"] = {**sides, "before_header": params["address"], "after_header": params["address"]}
    return result


def failure(error):
    """The result of a failed task."""
    errors = getattr(error, "errors", [])
    return {"msg": str(error), **({"errors": errors} if errors else {})}


def secrets_of(params):
    """The secrets that no result may contain."""
    return [*secrets_in(params.get("settings")), *([params["key"]] if params.get("key") else [])]


def credentials_of(params, env):
    """The credentials, in the order in which they are tried."""
    if params["key_file"]:
        return credentials_in(params["key_file"], params["device"])
    name = "key" if params["key"] else params["key_env"]
    given = (params["key"] or env.get(name, "")).strip()
    if not given:
        raise WrongCall(f"the device needs a key: give key or key_file, or set the environment variable {name}")
    if not CREDENTIAL.fullmatch(given):
        raise WrongCall(f"{name}: it is no key and no token")
    return [given]


def within(name, value, limits):
    least, most = limits
    if value is not None and not least <= value <= most:
        raise WrongCall(f"{name}: {value} is not from {least} to {most} seconds")
