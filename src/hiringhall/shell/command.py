"""The payload of a shell job: one JSON object with a command and where to run it.

    {"command": "convert cat.jpg cat.png", "cwd": "/var/photos", "env": {"LANG": "C"}, "tag": "cat.jpg"}

Invariant: a command and a folder are bytes for the system, so those that are not UTF-8 survive: they stand in
`command_base64` and `cwd_base64`. What is decoded has been checked, except for what a worker allows.
"""

from __future__ import annotations

from typing import Final

import msgspec

QUEUE: Final = b"shell"
"""The queue of shell jobs, unless another is named."""
BAD_COMMAND: Final = 2
"""Code of a job whose payload is no shell command."""
COMMAND_BYTES_MAX: Final = (128 << 10) - 1
"""Linux takes no longer argument of a program."""
ENV_BYTES_MAX: Final = 1 << 20
"""All variables of one job."""


class BadCommand(ValueError):
    """Why a payload cannot be run."""


class _Payload(msgspec.Struct, omit_defaults=True):
    """The object in JSON. Unknown entries are ignored."""

    command: str = ""
    command_base64: bytes = b""
    cwd: str = ""
    cwd_base64: bytes = b""
    env: dict[str, str] = {}
    tag: str = ""


_DECODER: Final = msgspec.json.Decoder(_Payload)
_ENCODER: Final = msgspec.json.Encoder()


class ShellCommand(msgspec.Struct, frozen=True):
    """A command for `/bin/sh -c`."""

    command: bytes
    cwd: bytes = b""
    """An absolute path; empty: the folder of the worker."""
    env: dict[str, str] = {}
    """Variables beside those of the worker. The worker must allow each of them."""
    tag: str = ""
    """What people call this job, such as its arguments."""


def encode(command: ShellCommand) -> bytes:
    """The payload of a job. Raises BadCommand."""
    _check(command)
    payload = _Payload(env=command.env, tag=_printable(command.tag))
    try:
        payload.command = command.command.decode()
    except UnicodeDecodeError:
        payload.command_base64 = command.command
    try:
        payload.cwd = command.cwd.decode()
    except UnicodeDecodeError:
        payload.cwd_base64 = command.cwd
    try:
        return _ENCODER.encode(payload)
    except UnicodeEncodeError as error:
        raise BadCommand("a variable in env is not UTF-8") from error


def decode(payload: bytes) -> ShellCommand:
    """The command of a job. Raises BadCommand."""
    try:
        found = _DECODER.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadCommand(
            f'the payload is not a shell command, such as {{"command": "make"}}: {error}'
        ) from error
    command = ShellCommand(
        found.command_base64 or found.command.encode(),
        found.cwd_base64 or found.cwd.encode(),
        found.env,
        found.tag,
    )
    _check(command)
    return command


def _check(command: ShellCommand) -> None:
    if not command.command.strip():
        raise BadCommand("the payload has no command")
    if len(command.command) > COMMAND_BYTES_MAX:
        size = len(command.command)
        raise BadCommand(f"the command has {size} bytes, and the system takes {COMMAND_BYTES_MAX}")
    if b"\0" in command.command or b"\0" in command.cwd:
        raise BadCommand("the command or its folder has a NUL character")
    if command.cwd and not command.cwd.startswith(b"/"):
        raise BadCommand("cwd must be an absolute path")
    size = 0
    for name, value in command.env.items():
        size += len(name) + len(value)
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise BadCommand(f"env: {name[:80]!r} cannot be a variable")
    if size > ENV_BYTES_MAX:
        raise BadCommand(f"env has more than {ENV_BYTES_MAX} bytes")


def _printable(text: str) -> str:
    """A tag is for people: bytes that are not UTF-8 are replaced."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
