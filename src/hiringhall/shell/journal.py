"""What `--resume` needs to know of a run: the name that the keys of its jobs begin with.

Invariant: the name of a new run is on disk before its first job is submitted, so that a run can be resumed
whenever it was killed. A run without `--resume` gets a new name, and so finds no job of an earlier run.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

NAME_BYTES: Final = 6


class Entry(msgspec.Struct, frozen=True):
    """A run."""

    run: str
    """The keys of its jobs begin with it."""
    queue: str
    hall: str = ""
    """The URL of the hall; empty: one that is opened for the run."""
    title: str = ""
    """The name or the command, for people."""


_DECODER: Final = msgspec.json.Decoder(Entry)


def file_of(folder: Path, title: bytes) -> Path:
    """The file of the runs with this name or command."""
    return folder / f"run-{hashlib.blake2b(title, digest_size=8).hexdigest()}.json"


def new_run() -> str:
    """A name that no other run has."""
    return secrets.token_hex(NAME_BYTES)


def read(file: Path) -> Entry | None:
    """The latest run; None: there is none that can be read."""
    try:
        return _DECODER.decode(file.read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError, ValueError):
        return None


def write(file: Path, entry: Entry) -> None:
    """Keep it, across a crash. Raises OSError."""
    new = file.with_suffix(".new")
    with new.open("wb") as output:
        output.write(msgspec.json.encode(entry))
        output.flush()
        os.fsync(output.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def key(run: str, number: int, command: bytes) -> bytes:
    """The key of a job: another command at the same place is another job."""
    digest = hashlib.blake2b(command, digest_size=6).hexdigest()
    return f"{run}-{number}-{digest}".encode()
