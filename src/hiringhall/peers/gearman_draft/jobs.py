"""A job as its client remembers it, and its status values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Priority = Literal["normal", "high", "low"]
JobType = Literal["sync+wait", "async+handle", "async+throw-away"]


@dataclass(eq=False, slots=True)
class Job:
    """All data to ask for a job or to submit it again. An application may store it and create it again.

    A handle is valid only at its server, so both are kept together.
    """

    name: bytes
    args: bytes
    key: bytes = b""
    type: JobType = "async+handle"
    priority: Priority = "normal"
    server: str = ""
    handle: bytes = b""
    """Empty until the server has accepted the job; always empty for a type without handles."""
    doubtful: bool = False
    """The connection was lost before the server answered: it may have the job or not."""

    def __str__(self) -> str:
        name = self.name.decode(errors="replace")
        return f"{name} {self.handle.decode(errors='replace')} at {self.server}" if self.handle else name


class Status(NamedTuple):
    """How much is done: numerator of denominator. `remaining_s` is the worker's estimate; 0: none."""

    numerator: int
    denominator: int
    remaining_s: int


class Outcome(NamedTuple):
    """How a job ended: `code` is 0 for success; `elapsed_s` is the time since its submit, at least 1."""

    elapsed_s: int
    code: int
    data: bytes

    @property
    def ok(self) -> bool:
        return self.code == 0


def as_bytes(name: str | bytes) -> bytes:
    """A name or a key, as sent over the wire."""
    data = name.encode(errors="surrogateescape") if isinstance(name, str) else name
    if b"\0" in data:
        raise ValueError(f"a name or a key must not contain NUL: {data!r}")
    return data
