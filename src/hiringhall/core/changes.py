"""What the store is told, and what it tells at the start.

The core marks jobs that changed. At the end of a turn `Scheduler.seal` looks at each of them once and
writes down the net effect, so a job that came and ended within one commit costs one row of history.
Rows are plain tuples, made in the core's thread: the store's thread never sees a live job.
"""

from __future__ import annotations

from collections.abc import Iterable  # noqa: TC003 (compiled, a NamedTuple looks its types up)
from typing import TYPE_CHECKING, NamedTuple

from hiringhall.core.jobs import Try  # noqa: TC001 (as above)
from hiringhall.core.terms import Terms  # noqa: TC001 (as above)

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef


class JobRow(NamedTuple):
    """A live durable job."""

    id: int
    queue: bytes
    key: bytes
    payload: bytes
    terms: Terms
    state: int
    """HELD, DELAYED, QUEUED or LEASED. A lease dies with the hall unless `holder` says whose it is; that it was
    there is kept. A lease of less than a moment is not told to the store."""
    created_us: int
    due_us: int
    attempts: int
    failures: int
    losses: int
    parents: tuple[ParentRef, ...]
    """Those not yet met."""
    extras: dict[str, bytes] | None
    ready_us: int = 0
    started_us: int = 0
    """Start of the latest attempt."""
    holder: bytes = b""
    """The name of the resident worker that has it; empty: nobody whose lease outlives the hall."""
    worker: bytes = b""
    """Who had the latest attempt."""
    tries: tuple[Try, ...] = ()


class JobUpdate(NamedTuple):
    """The columns of a live job that can change once it is stored."""

    id: int
    terms: Terms
    state: int
    due_us: int
    attempts: int
    failures: int
    losses: int
    parents: tuple[ParentRef, ...]
    extras: dict[str, bytes] | None = None
    ready_us: int = 0
    started_us: int = 0
    holder: bytes = b""
    worker: bytes = b""
    tries: tuple[Try, ...] = ()


class EndRow(NamedTuple):
    """A durable job's line in the history."""

    id: int
    queue: bytes
    key: bytes
    state: int
    """DONE, FAILED or CANCELLED."""
    code: int
    result: bytes
    worker: bytes
    created_us: int
    started_us: int
    ended_us: int
    attempts: int
    losses: int
    terms: Terms
    payload: bytes
    """Empty unless FAILED: a dead letter keeps what it takes to run it again."""
    extras: dict[str, bytes] | None
    ready_us: int = 0
    tries: tuple[Try, ...] = ()


class Firing(NamedTuple):
    """How far a schedule has come."""

    due_us: int
    """Its latest due time that counts as fired; of a new schedule, when it began."""
    plan: bytes
    """A digest of what was planned then: another plan begins anew."""


class Batch:
    """One transaction: all of it, or nothing of it."""

    __slots__ = ("deletes", "ended", "ends", "fired", "inserted", "inserts", "revived", "updated", "updates")

    def __init__(self) -> None:
        self.inserts: list[JobRow] = []
        self.updates: list[JobUpdate] = []
        self.deletes: list[int] = []
        """Ids to take out of the live jobs: each of them is in `ends` too."""
        self.ends: list[EndRow] = []
        self.revived: list[int] = []
        """Ids to take out of the history: dead letters that run again, each of them in `inserts` too. One that
        has ended again by now comes in `ends` instead: that line takes the place of the earlier one."""
        self.fired: dict[str, Firing | None] = {}
        """Schedules by name, with how far they have come; None: it is forgotten."""
        self.inserted: list[Job] = []
        """For the core only: the jobs behind `inserts`."""
        self.updated: list[Job] = []
        """For the core only: the jobs behind `updates`."""
        self.ended: list[Job] = []
        """For the core only: the jobs behind `ends`."""

    @property
    def empty(self) -> bool:
        return not (self.inserts or self.updates or self.ends or self.fired)


class Loaded(NamedTuple):
    """What a store holds when the hall opens."""

    epoch: int
    """This boot's number: already one higher on disk than that of the boot before."""
    jobs: Iterable[JobRow]
    """By id, so that older jobs come first. To be walked once, before anything is committed."""
    ended: Iterable[EndRow]
    """The latest lines of the history, oldest first; so many as were asked for. Results are left out."""
    fired: dict[str, Firing]
    """How far each schedule has come."""
