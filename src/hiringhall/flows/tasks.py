"""The tasks of a flow file, and the error that names a place in the file.

Invariant: whatever is wrong with a file is a `FileError` that says where: the file, the line, and what to do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_BYTES_MAX: Final = 3800
"""With the name of its flow, the name of a task is the key of a job, which may have 4096 bytes."""
TASKS_MAX: Final = 1_000_000
NEEDS_MAX: Final = 10_000_000
"""Needs of all tasks together."""
SHOWN_MAX: Final = 60


class FileError(Exception):
    """What is wrong in a file, and where."""

    def __init__(self, place: str, line: int, text: str) -> None:
        super().__init__(f"{place}:{line}: {text}" if line else f"{place}: {text}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a task is run. What is None is left to the hall or to the worker."""

    queue: str | None = None
    retries: int | None = None
    backoff_us: int | None = None
    timeout_us: int | None = None
    priority: str | None = None
    on_parent_failure: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    resources: str | None = None
    """What it needs of the resources of its worker."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task. Either it has a command for a shell, or a payload for the workers of its queue."""

    name: str
    line: int
    needs: tuple[str, ...] = ()
    command: str | None = None
    payload: str = ""
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True)
class FlowFile:
    """A file that was read."""

    place: str
    """What the file is called in messages."""
    name: str | None
    """The name that the file gives the flow; None: it gives none."""
    tasks: list[Task]


def check_name(place: str, line: int, name: str) -> None:
    """Refuse a task without a name, or with one that is too long."""
    if not name:
        raise FileError(place, line, "the name of a task is missing")
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        raise FileError(place, line, f"the name of a task may have {NAME_BYTES_MAX} bytes")


def shown(name: str) -> str:
    """A name in a message."""
    return f'"{name}"' if len(name) <= SHOWN_MAX else f'"{name[:SHOWN_MAX]}…"'
