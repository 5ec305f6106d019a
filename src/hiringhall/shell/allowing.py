"""What the operator of a shell worker allows: folders, and variables of the environment.

Invariant: a job gets only what was allowed at the command line of the worker. The token of the worker is never
in the environment of a command.

Whoever may submit shell jobs can run any program as the user of the worker. These rules prevent mistakes, and
keep secrets of the worker's environment from commands; they are no sandbox.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hiringhall.sdk.addresses import TOKEN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hiringhall.shell.command import ShellCommand

ALL: Final = "*"
"""In place of a name: every variable."""
NOT_ALLOWED: Final = 126
"""Code of a job that asks for what the worker does not allow; the shell uses it for commands it cannot run."""
ALWAYS: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""Variables of the worker that every command gets."""
_ALWAYS_PREFIX: Final = "LC_"


class NotAllowed(Exception):
    """Why a job is not run by this worker."""


class Allowance:
    """The rules of one worker."""

    def __init__(
        self, names: Iterable[str] = (), below: str | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        """`names`: variables that commands get from the worker, and that jobs may set. `below`: the folder in
        which, or below which, commands run; None: anywhere. `environ`: that of the worker; None: this process.
        """
        self._names = frozenset(names)
        self._below = None if below is None else os.path.realpath(os.fsencode(below))
        self.folder = os.fsencode(Path.cwd()) if self._below is None else self._below
        """Where a command runs that names no folder."""
        own = os.environ if environ is None else environ
        self._environment = {
            os.fsencode(name): os.fsencode(value)
            for name, value in own.items()
            if self._passes(name) and name != TOKEN_VARIABLE
        }

    def _passes(self, name: str) -> bool:
        return self._sets(name) or name in ALWAYS or name.startswith(_ALWAYS_PREFIX)

    def _sets(self, name: str) -> bool:
        return name in self._names or ALL in self._names

    def folder_of(self, command: ShellCommand) -> bytes:
        """Where a command runs. Raises NotAllowed."""
        if not command.cwd:
            return self.folder
        if self._below is not None:
            # Compared as the system sees them: a link may lead elsewhere.
            real = os.path.realpath(command.cwd)
            if real != self._below and not real.startswith(self._below.rstrip(b"/") + b"/"):
                asked, below = os.fsdecode(command.cwd), os.fsdecode(self._below)
                raise NotAllowed(f"the folder {asked} is not below {below} (--cwd-below of the worker)")
        return command.cwd

    def environment_of(self, command: ShellCommand) -> dict[bytes, bytes]:
        """The variables of a command, a new dictionary. Raises NotAllowed."""
        environment = dict(self._environment)
        for name, value in command.env.items():
            if not self._sets(name) or name == TOKEN_VARIABLE:
                raise NotAllowed(f"the variable {name[:80]!r} is not allowed (--env of the worker)")
            environment[os.fsencode(name)] = os.fsencode(value)
        return environment
