# SPDX-License-Identifier: MIT
"""What settings would change on a receiver, and the change itself, until its outcome is known."""

import json
import re
import time

from ansible_collections.receiverd.receiverd.plugins.module_utils.client import ReceiverError, Refused, Unanswered

# Seconds for a network to change, before the device is asked whether it is still there.
SETTLE_S = 10
RETRY_S = 1
# The longest trial of a real device.
MAX_CONFIRM_S = 600
# After how many timeouts a device that has not answered a change is given up.
LOST_FACTOR = 3

SECRET_MEMBER = "password"
QUERY = re.compile(r"https?://[^?#\s]*\?([^#\s]+)")
ABSENT = object()
UNSEEN = "whether the change was made cannot be seen, because it sends passwords alone"


class Difference:
    """A value that would change."""

    def __init__(self, path, before, after):
        self.path = path
        self.before = before
        self.after = after

    @property
    def pointer(self):
        """The path as a JSON pointer (RFC 6901)."""
        return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in self.path)

    @property
    def is_hidden(self):
        """Whether nothing that can be seen would change: a secret is never read back."""
        return same(self.before, self.after)


class Comparison:
    """What a device has, and what would change. Raises `ReceiverError` with each value that it refuses."""

    def __init__(self, client, settings):
        answer = client.send("GET", "/system")
        system, self.etag = answer.body, answer.etag
        try:
            preview = client.send("PATCH", "/system?validateOnly=true", settings).body
        except Refused as error:
            raise described(error)
        changes = member(preview, "changes", "PATCH /system?validateOnly=true")
        # The settings that would change, as they were given.
        self.patch = {name: value for name, value in settings.items() if name in changes}
        self.differences = [each for name in changes for each in changed(system, name, changes[name])]

    @property
    def is_hidden(self):
        return all(each.is_hidden for each in self.differences)

    def changes(self):
        return [
            {"pointer": each.pointer, "before": None if each.before is ABSENT else each.before, "after": each.after}
            for each in self.differences
        ]

    def diff(self):
        """Both sides, as Ansible shows them: only what differs."""
        before, after = {}, {}
        for each in self.differences:
            if each.before is not ABSENT:
                put(before, each.path, each.before)
            put(after, each.path, SENT_AGAIN if each.is_hidden else each.after)
        return {"before": before, "after": after}


SENT_AGAIN = "(sent again: a secret in it cannot be compared)"


def member(body, name, asked):
    """An object in an answer; empty if it has none. Raises `ReceiverError` for anything else."""
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise ReceiverError(f"it is no receiver: its answer to {asked} has something other than an object as {name}")
    return value


def described(error):
    """The same refusal, with its pointers in its text."""
    if not error.errors:
        return error
    listed = "; ".join(f"{each.get('pointer') or '/'}: {each.get('detail', '')}".rstrip(".") for each in error.errors)
    error.args = (f"the device refuses {listed}",)
    return error


def changed(system, name, after):
    """The values in a changed setting that differ; the whole setting if no difference can be seen, as with a secret."""
    whole = Difference([name], system.get(name, ABSENT), after)
    return differences(whole) or [whole]


def differences(whole):
    # A list is one value: it is replaced whole.
    if not isinstance(whole.after, dict):
        return [] if same(whole.before, whole.after) else [whole]
    before = whole.before if isinstance(whole.before, dict) else {}
    return [
        each
        for name, after in whole.after.items()
        for each in differences(Difference(whole.path + [name], before.get(name, ABSENT), after))
    ]


def same(one, other):
    """Compares as JSON: to Python, 1 and true are equal."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def put(tree, path, value):
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def secrets_in(settings):
    """The passwords in settings, and the queries of URLs, which may be credentials."""
    if isinstance(settings, dict):
        for name, value in settings.items():
            if name == SECRET_MEMBER and isinstance(value, str) and value:
                yield value
            else:
                yield from secrets_in(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from secrets_in(value)
    elif isinstance(settings, str):
        yield from QUERY.findall(settings)


class Change:
    """One change of a device."""

    def __init__(self, client, comparison, trial_s, lost_s, wait=time.sleep, now=time.monotonic):
        """
        `trial_s`: seconds that the change is on trial; 0 for no trial, unless the change can cut the device off.
        `lost_s`: seconds after which a device that has not answered is given up; a change on trial gets its full time.
        """
        self._client = client
        self._comparison = comparison
        self._trial_s = trial_s
        self._lost_s = lost_s
        self._wait = wait
        self._now = now

    def make(self):
        """
        Makes the change, and returns whether anything has changed: the device may already have had a password that was sent.
        When this returns, the outcome is known: after a lost answer, the device is asked what it has.
        """
        lock_out_s = self._lock_out_s()
        trial_s = self._trial_s or lock_out_s
        began = self._now()
        answer = self._send(trial_s)
        until = began + (trial_s or self._lost_s)
        is_lost = isinstance(answer, ReceiverError)
        if is_lost and not trial_s:
            self._find(answer, self._now() + self._lost_s)
        elif trial_s and (is_lost or answer.headers.get("Confirm-Within")):
            if lock_out_s:
                # Leaves time to confirm the change.
                self._wait(min(SETTLE_S, trial_s / 2))
            etag = self._find(answer, until) if is_lost else answer.etag
            if etag:
                self._confirm(etag, trial_s, until)
        return is_lost or answer.etag != self._comparison.etag

    def _lock_out_s(self):
        """Seconds within which a change of these settings must be confirmed, because it can cut the device off; 0 otherwise."""
        document = self._client.send("GET", "/openapi.json").body
        try:
            schemas = document.get("components", {}).get("schemas", {})
            properties = resolved(schemas, schemas.get("System", {})).get("properties", {})
            found = [resolved(schemas, properties.get(name, {})) for name in self._comparison.patch]
            # Nobody waits for a device that claims a longer one.
            return max((min(int(schema.get("x-confirm-within", 0)), MAX_CONFIRM_S) for schema in found), default=0)
        except (AttributeError, OverflowError, TypeError, ValueError):
            raise ReceiverError("it is no receiver: its answer to GET /openapi.json is no description of its settings")

    def _send(self, trial_s):
        """Sends the change. Returns an `Answer`, or the error if the outcome is unknown."""
        path = f"/system?confirmWithin={trial_s}" if trial_s else "/system"
        try:
            return self._client.send("PATCH", path, self._comparison.patch)
        except Refused as error:
            # A server in front answers 503 for a service that has exited, perhaps in the middle of the change.
            if error.status == 503:
                return error
            raise described(error)
        except Unanswered as error:
            return error

    def _find(self, cause, until):
        """
        Finds out whether a change was made whose answer was lost, by this cause. Returns the ETag of its trial; None without one.
        """
        while True:
            try:
                self._settle()
                status = self._client.send("GET", "/status").body
                fate = self._fate()
            except ReceiverError as error:
                if self._now() >= until:
                    raise ReceiverError(f"it has not answered since the change was sent: {error}")
                self._wait(RETRY_S)
                continue
            if fate == "not made":
                raise ReceiverError(f"the change was not made: {cause}; run the task again")
            if fate == "unseen":
                raise ReceiverError(f"{cause}; {UNSEEN}; run the task again")
            return member(status, "trial", "GET /status").get("etag")

    def _settle(self):
        """Returns when no change is being made: a device makes changes, and previews of them, one after the other."""
        try:
            self._client.send("PATCH", "/system?validateOnly=true", {})
        except Refused as error:
            # A change is on trial, and so it is made.
            if error.status != 409:
                raise

    def _fate(self):
        """Whether the device has the values of the change: `made`, `not made`, or `unseen` if that cannot be determined."""
        if self._comparison.is_hidden:
            return "unseen"
        system = self._client.send("GET", "/system").body
        return "made" if all(holds(system, each) for each in self._comparison.differences) else "not made"

    def _confirm(self, etag, trial_s, until):
        while True:
            try:
                if self._is_confirmed(etag):
                    return
                fate = self._fate()
            except ReceiverError as error:
                if isinstance(error, Refused) and error.status < 500:
                    raise
                if self._now() >= until:
                    raise ReceiverError(f"it has not answered after the change, and undoes it by itself: {error}")
                self._wait(RETRY_S)
                continue
            # A device that restarted after the confirmation has forgotten it.
            if fate == "made":
                return
            undone = f"not confirmed within {trial_s} s, or it restarted"
            if fate == "not made":
                raise ReceiverError(f"it has undone the change: {undone}")
            raise ReceiverError(f"it may have undone the change ({undone}): {UNSEEN}; run the task again")

    def _is_confirmed(self, etag):
        """Confirms a change. Returns False if the device has no such change on trial."""
        try:
            self._client.send("POST", "/system/confirm", etag=etag)
            return True
        except Refused as error:
            if error.status == 409:
                return False
            raise


def holds(system, difference):
    """Whether a configuration has the value of a change, as far as it can be seen."""
    value = system
    for name in difference.path:
        value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
    return same(value, difference.after)


def resolved(schemas, schema):
    """The schema that a schema refers to (`$ref` into the components of the document), with the members beside the reference."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return {**schemas.get(name, {}), **schema} if name else schema
