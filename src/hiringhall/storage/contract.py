"""The contract of a store: load, commit, query. It exposes nothing of its engine.

All calls except `check` and `next_expiry_us` come from one thread at a time. `commit` returns when the whole
batch is on disk. If it raises `OutcomeUnknown`, the batch is kept or it is not, and `settle` is asked until it
tells which. If it raises any other `StoreError`, nothing of the batch is kept; the same or another batch may be
tried later.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (a NamedTuple looks its types up)
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hiringhall.core.changes import HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hiringhall.core.changes import Batch, EndRow, HistoryPage, JobRow, Loaded, OutputPage
    from hiringhall.core.jobs import ParentRef

__all__ = [
    "RULED_QUEUES_MAX",
    "HistoryQuery",
    "OutcomeUnknown",
    "QueueRetention",
    "Retention",
    "Store",
    "StoreError",
]

RULED_QUEUES_MAX: Final = 100
"""Maximum number of queues with their own retention rules."""


class StoreError(Exception):
    """A store failure, worded for the operator: what failed, where, and what to do."""


class OutcomeUnknown(StoreError):
    """A commit failed so late that the batch may be kept or not: `Store.settle` tells which."""


class QueueRetention(NamedTuple):
    """How much history one queue keeps, separate from all others. The oldest lines are dropped first."""

    age_us: int = 7 * 86_400_000_000
    dead_age_us: int = 90 * 86_400_000_000
    rows_max: int = 10_000_000
    bytes_max: int = 16 << 30
    """Total size of the results, payloads, keys, extras and output of its lines."""


class Retention(NamedTuple):
    """How much history is kept. The oldest lines are dropped first; dead letters expire after `dead_age_us`."""

    age_us: int = 7 * 86_400_000_000
    dead_age_us: int = 90 * 86_400_000_000
    rows_max: int = 10_000_000
    """Lines of all queues that have no retention rules of their own."""
    result_bytes_max: int = 1 << 20
    """A longer result is truncated in the history. The client still gets all of it."""
    payload_bytes_max: int = 4 << 10
    """A longer payload is truncated in the history, unless the job FAILED; 0: none is kept."""
    output_bytes_max: int = 256 << 10
    """Of the output of a job, this much is kept, the latest; 0: none."""
    bytes_max: int = 16 << 30
    """Size of the whole store, including live jobs. The oldest history lines of any queue are dropped so that
    a sixteenth stays free for the next commit. Live jobs are never dropped."""
    queues: Mapping[bytes, QueueRetention] = MappingProxyType({})
    """Queues with their own retention rules: at most `RULED_QUEUES_MAX`."""
    heeds_keep: bool = True
    """A line is also dropped when its job says so (`Terms.keep_us`)."""


class Store(Protocol):
    """Keeps durable jobs and the history."""

    def load(self, ended_max: int) -> Loaded:
        """Open the store, increment the boot epoch on disk, and return what is stored."""

    def commit(self, batch: Batch, now_us: int) -> None:
        """Write the batch to disk in one transaction, and expire a bounded part of the history."""

    def settle(self) -> bool:
        """Whether the batch is kept whose commit raised `OutcomeUnknown`; if not, nothing of it is. Raises
        StoreError while that cannot be found out. Called only then, until it answers, and with no other commit
        in between.
        """

    def next_expiry_us(self) -> int:
        """When the history is to be looked at for lines to expire even if there is nothing else to commit; may
        be in the past. Callable from any thread.
        """

    def check(self) -> None:
        """A quick check, callable from any thread. Raises StoreError while a commit would be lost."""

    def probe(self) -> None:
        """Write and sync a small value. Raises StoreError while the store cannot commit."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        """Return the matching lines with their results."""

    def page(self, query: HistoryQuery) -> HistoryPage:
        """Return some of the matching lines, with bounded work: a commit may be waiting. A line has no payload,
        and of its result the beginning.
        """

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        """Return the line of each job given by id or by (queue, key), if there is one. If several jobs have the
        same queue and key, it is the one that ended last. Jobs of a provider are found by id only. Results are
        left out, and payloads unless the job FAILED.
        """

    def output(self, job_id: int, position: int) -> OutputPage:
        """The output of a live or ended job from a position on, as much as is read at once."""

    def live(self) -> Iterator[JobRow]:
        """The stored jobs that have not ended, ordered by id."""

    def count(self) -> tuple[int, int]:
        """The number of live jobs and the number of history lines."""

    def close(self) -> None:
        """Finish all writes and release the store. It must not be used after this."""
