"""The rows that the store is given, and those it returns at the start and when the history is asked.

The core notes jobs that changed. At the end of a turn `Scheduler.seal` looks at each of them once and writes
the net effect, so a job that was submitted and ended within one commit costs one row of history. Rows are
plain tuples, made in the core's thread: the store's thread never sees a live job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence  # noqa: TC003 (compiled, a NamedTuple looks its types up)
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.jobs import ParentRef, Try  # noqa: TC001 (as above)
from hiringhall.core.rules.queue_rules import QueueRules  # noqa: TC001 (as above)
from hiringhall.core.terms import Terms  # noqa: TC001 (as above)

if TYPE_CHECKING:
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import Job


class JobRow(NamedTuple):
    """A live durable job."""

    id: int
    queue: bytes
    key: bytes
    payload: bytes
    terms: Terms
    state: int
    """HELD, DELAYED, QUEUED or LEASED. A lease ends with the hall, unless `holder` names a resident. A lease is
    stored only after it has lasted for a while."""
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
    """The name of the resident that holds it; empty: none."""
    worker: bytes = b""
    """The worker of the latest attempt."""
    tries: tuple[Try, ...] = ()
    flow: bytes = b""
    """The name of its flow; empty: none."""
    all_parents: tuple[ParentRef, ...] = ()
    """Every parent of a job that belongs to a flow, met or not."""
    dialect: str = ""
    """The dialect of the worker of the latest attempt; empty: unknown."""

    def updated(self, update: JobRow, payload: bytes | None = None) -> JobRow:
        """The row after an update, in which queue, key, payload, time of creation and flow count for nothing. A
        payload that is given is new.
        """
        return update._replace(
            queue=self.queue,
            key=self.key,
            payload=self.payload if payload is None else payload,
            created_us=self.created_us,
            flow=self.flow,
        )


class EndRow(NamedTuple):
    """A row of the history: a job that has ended."""

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
    """Empty if the job is not durable. The store keeps the beginning of it; if the job FAILED, all of it, which
    a retry needs."""
    extras: dict[str, bytes] | None
    ready_us: int = 0
    tries: tuple[Try, ...] = ()
    payload_cut: int = 0
    """The size of the whole payload, if the store kept only its beginning; otherwise 0. Set by the store."""
    flow: bytes = b""
    all_parents: tuple[ParentRef, ...] = ()
    """As in `JobRow`."""
    dialect: str = ""
    """The dialect of the worker of the latest attempt; empty: unknown."""


DATA: Final = 0
WARNING: Final = 1
LOG: Final = 2
"""The kinds of output."""
OUTPUT_LINE_BYTES: Final = 32
"""A line of output counts as this many bytes more than its data."""
OUTPUT_PAGE_BYTES: Final = 1 << 20
"""How much output of a job is read at once; a single line may be longer."""


class OutputRow(NamedTuple):
    """A line of a job's output: what its worker said while the job ran."""

    job: int
    at_us: int
    kind: int
    """DATA, WARNING or LOG."""
    data: bytes
    position: int = 0
    """The size of all lines before it; given by the store."""


class OutputPage(NamedTuple):
    """Lines of one job."""

    lines: list[OutputRow]
    end: int
    """The position after the last of them; without lines, the position of the next line of the job."""
    more: bool = False
    """The store has further lines."""


def output_bytes(data: bytes) -> int:
    """How much a line of output counts."""
    return len(data) + OUTPUT_LINE_BYTES


class HistoryQuery(NamedTuple):
    """Selects lines of the history, newest first. Every field that is not None must match."""

    id: int | None = None
    queue: bytes | None = None
    key: bytes | None = None
    state: int | None = None
    ended_from_us: int | None = None
    ended_to_us: int | None = None
    before_id: int | None = None
    """Only ids below this one. Used for paging."""
    limit: int = 100
    flow: bytes | None = None
    brief: bool = False
    """In a page, lines without results, and more of them."""


PAGE_RESULT_BYTES: Final = 4096
"""A longer result is cut in a page of the history."""


class HistoryPage(NamedTuple):
    """Some of the lines that match a query."""

    lines: list[EndRow]
    before_id: int
    """Goes on with the ids below this one; 0: there are no more lines."""


class Firing(NamedTuple):
    """The progress of a schedule."""

    due_us: int
    """The latest due time that counts as fired; for a new schedule, when it was added."""
    plan: bytes
    """A digest of the plan; a changed plan starts anew."""


class WindowRow(NamedTuple):
    """A throttled key: submits with it are answered with this job until the window is over."""

    queue: bytes
    key: bytes
    job: int
    until_us: int


class FlowRow(NamedTuple):
    """A flow: when it began and ended, and how many of its jobs have ended how."""

    name: bytes
    created_us: int
    ended_us: int
    """0: it has live jobs."""
    done: int
    failed: int
    cancelled: int


class Batch:
    """One transaction: all of it, or nothing of it."""

    __slots__ = (
        "deletes",
        "ended",
        "ends",
        "expires",
        "fired",
        "flows",
        "inserted",
        "inserts",
        "output",
        "paused",
        "payloads",
        "revived",
        "rules",
        "touched",
        "updated",
        "updates",
        "windows",
    )

    def __init__(self) -> None:
        self.inserts: list[JobRow] = []
        self.updates: list[JobRow] = []
        """Stored jobs that changed. Their queue, key and time of creation never do; a payload does if it is in
        `payloads`."""
        self.payloads: dict[int, bytes] = {}
        """The new payloads of some jobs of `updates`, by id: they were debounced, and submitted again."""
        self.deletes: list[int] = []
        """Ids to remove from the live jobs; each is also in `ends`."""
        self.ends: list[EndRow] = []
        self.revived: list[int] = []
        """Ids to remove from the history: retried dead letters, each also in `inserts`. One that has ended
        again is in `ends` instead, and replaces its earlier row."""
        self.fired: dict[str, Firing | None] = {}
        """The progress of schedules by name; None: the schedule was removed."""
        self.output: list[OutputRow] = []
        """What the workers of durable jobs have said. Each job of it is live, or in `ends`, and its extras have
        the name OUTPUT."""
        self.paused: dict[bytes, bool] = {}
        """Queues that were paused (True) or resumed (False), by name."""
        self.rules: dict[bytes, QueueRules | None] = {}
        """The rules of queues that were set at run time, by name; None: they were cleared."""
        self.windows: dict[tuple[bytes, bytes], WindowRow | None] = {}
        """Keys that are throttled, by queue and key; None: no longer."""
        self.flows: dict[bytes, FlowRow | None] = {}
        """The flows that changed, by name; None: the flow was dropped."""
        self.expires = False
        """It is committed even if it changes nothing, so that the history drops what is due."""
        self.inserted: list[Job] = []
        """For the core only: the jobs behind `inserts`."""
        self.updated: list[Job] = []
        """For the core only: the jobs behind `updates`."""
        self.ended: list[Job] = []
        """For the core only: the jobs behind `ends`."""
        self.touched: list[Flow] = []
        """For the core only: the flows behind `flows`."""

    @property
    def empty(self) -> bool:
        changed = self.inserts or self.updates or self.ends
        noted = self.fired or self.output or self.paused or self.flows or self.rules or self.windows
        return not (changed or noted or self.expires)


class Loaded(NamedTuple):
    """What a store holds when the hall opens."""

    epoch: int
    """The number of this start: already incremented on disk."""
    jobs: Iterable[JobRow]
    """By id, so that older jobs come first. Read it once, before the first commit."""
    ended: Iterable[EndRow]
    """The latest rows of the history, oldest first, as many as were asked for; without results, and without
    payloads unless the job FAILED."""
    fired: dict[str, Firing]
    """The progress of each schedule."""
    paused: list[bytes]
    """The names of the paused queues."""
    flows: list[FlowRow]
    """All flows, the oldest first."""
    rules: dict[bytes, QueueRules] = {}  # noqa: RUF012 (a NamedTuple copies no default, and nothing changes it)
    """The rules of queues that were set at run time, by name."""
    windows: Sequence[WindowRow] = ()
    """The keys that are throttled. Their time may be over."""
    unchanged: bool = False
    """All is as it was when it was read ahead: only the epoch is told."""
