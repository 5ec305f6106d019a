"""What the hall knows of a job, in Python's types."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

State: TypeAlias = Literal["held", "delayed", "queued", "leased", "done", "failed", "cancelled"]
"""held: waits for parents; delayed: for its time, or a retry; queued: for a worker; leased: a worker has it."""


class Progress(NamedTuple):
    """How far a job is."""

    done: int
    of: int

    @property
    def fraction(self) -> float:
        return self.done / self.of if self.of else 0.0


class Attempt(NamedTuple):
    """An earlier attempt at a job."""

    started: dt.datetime
    ended: dt.datetime
    worker: str
    code: int
    dialect: str = ""
    """The protocol of the worker; empty: unknown."""


@dataclass(frozen=True)
class JobInfo:
    """A job as the hall describes it."""

    id: int
    queue: str
    key: str
    state: State
    created: dt.datetime
    started: dt.datetime | None
    ended: dt.datetime | None
    attempts: int
    losses: int
    worker: str
    progress: Progress | None
    why: str
    """Why it is not running; empty: it is, or has ended."""
    code: int | None
    """How it ended; None: it has not."""
    result: bytes | None
    """The result, or the data of the failure, as bytes; lists cut it."""
    payload: bytes | None
    """What it was asked, or the beginning; None: it is not kept."""
    tries: tuple[Attempt, ...]
    flow: str
    """The flow that it belongs to; empty: none."""


def read_info(described: dict[str, Any]) -> JobInfo:
    """From the map of the native protocol."""
    numerator, denominator = described.get("progress") or (0, 0)
    return JobInfo(
        id=described["id"],
        queue=_text(described["queue"]),
        key=_text(described["key"]),
        state=described["state"],
        created=_at(described["created_us"]) or dt.datetime.fromtimestamp(0, dt.UTC),
        started=_at(described.get("started_us")),
        ended=_at(described.get("ended_us")),
        attempts=described.get("attempts", 0),
        losses=described.get("losses", 0),
        worker=_text(described.get("worker", b"")),
        progress=Progress(numerator, denominator) if denominator else None,
        why=_text(described.get("why", "")),
        code=described.get("code"),
        result=described.get("result"),
        payload=described.get("payload"),
        tries=tuple(
            # An earlier hall does not tell the dialect, and a later one may tell more.
            Attempt(_moment(attempt[0]), _moment(attempt[1]), _text(attempt[2]), attempt[3], *attempt[4:5])
            for attempt in described.get("tries", ())
        ),
        flow=_text(described.get("flow")),
    )


def _text(name: bytes | str | None) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name or ""


def _moment(time_us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC)


def _at(time_us: int | None) -> dt.datetime | None:
    return _moment(time_us) if time_us is not None and time_us > 0 else None
