# SPDX-License-Identifier: MIT
"""
Carries out the task in Ansible's own process if the connection is local: a program for each of many devices takes ten times as
long. Otherwise, the module carries it out.
"""

import json
import os

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.errors import UnsupportedError
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.receiverd.receiverd.plugins.module_utils.client import ReceiverError
from ansible_collections.receiverd.receiverd.plugins.module_utils.task import OPTIONS, carry_out, failure, secrets_of


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        # Only another process can run as another user.
        if self._connection.transport != "local" or self._connection.become:
            return {**result, **self._execute_module(task_vars=task_vars)}
        options = ArgumentSpecValidator(**OPTIONS).validate(self._task.args)
        if options.error_messages:
            return {**result, "failed": True, "msg": mistake_in(options)}
        # As a module gets them: values of Ansible Vault become text.
        params = json.loads(json.dumps(options.validated_parameters, cls=AnsibleJSONEncoder, vault_to_text=True))
        given = {}
        self._compute_environment_string(given)
        try:
            done = carry_out(params, {**os.environ, **given}, is_check=self._task.check_mode, has_diff=self._task.diff)
        except ReceiverError as error:
            done = {"failed": True, **failure(error)}
        return {**result, **remove_values(done, secrets_of(params))}


def mistake_in(options):
    """The mistake in the options, in the words of a module."""
    is_unknown = isinstance(options.errors[0], UnsupportedError)
    return f"Unsupported parameters: {options.errors.msg}" if is_unknown else options.errors.msg
