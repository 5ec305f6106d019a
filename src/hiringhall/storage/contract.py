"""What a store must do: load, commit, query. Nothing of its engine shows through.

All calls but `check` come from one thread at a time. `commit` returns when the batch is on disk, all of it;
when it raises `StoreError` nothing of it counts, and the same or another batch may be tried later.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (a NamedTuple looks its types up)
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hiringhall.core.changes import Batch, EndRow, JobRow, Loaded
    from hiringhall.core.jobs import ParentRef

RULED_QUEUES_MAX: Final = 100
"""Queues that may have rules of their own for their history."""


class StoreError(Exception):
    """The store's trouble, in words for the person who runs the hall: what failed, where, and what to do."""


class QueueRetention(NamedTuple):
    """How much history one queue has, apart from that of all others. The oldest goes first."""

    age_us: int = 7 * 86_400_000_000
    dead_age_us: int = 90 * 86_400_000_000
    rows_max: int = 10_000_000
    bytes_max: int = 16 << 30
    """Results, payloads, keys and extras of its lines."""


class Retention(NamedTuple):
    """How much history is kept. The oldest goes first; dead letters go by `dead_age_us`."""

    age_us: int = 7 * 86_400_000_000
    dead_age_us: int = 90 * 86_400_000_000
    rows_max: int = 10_000_000
    """Lines of all queues that have no rules of their own."""
    result_bytes_max: int = 1 << 20
    """A result longer than this is cut in the history, never on its way to the client."""
    bytes_max: int = 16 << 30
    """The whole store, live jobs and all. The oldest lines of the history go, of whichever queue, so that a
    sixteenth of it stays free for what the next commit brings; live jobs never go."""
    queues: Mapping[bytes, QueueRetention] = MappingProxyType({})
    """Queues that have rules of their own: at most `RULED_QUEUES_MAX`."""


class HistoryQuery(NamedTuple):
    """Which lines of the history; every field that is not None must match. Newest first."""

    id: int | None = None
    queue: bytes | None = None
    key: bytes | None = None
    state: int | None = None
    ended_from_us: int | None = None
    ended_to_us: int | None = None
    before_id: int | None = None
    """Only ids below: the way to page."""
    limit: int = 100


class Store(Protocol):
    """A place for durable jobs."""

    def load(self, ended_max: int) -> Loaded:
        """Open, bump the boot epoch on disk, and hand out what is kept."""

    def commit(self, batch: Batch, now_us: int) -> None:
        """Put the batch on disk as one transaction, and let a bounded part of the history expire."""

    def check(self) -> None:
        """A quick look, from any thread: raises StoreError while a commit would be lost."""

    def probe(self) -> None:
        """Write and sync something small: raises StoreError while the store cannot take a commit."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        """The lines asked for, with their results."""

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        """The line of each job named by id or by (queue, key), as far as there is one. Of several with the same
        name it is the one that ended last; a provider's job has no name for others. Results are left out.
        """

    def live(self) -> Iterator[JobRow]:
        """The stored jobs that have not ended, by id."""

    def count(self) -> tuple[int, int]:
        """Live jobs and lines of history."""

    def close(self) -> None:
        """Put everything in order on disk. Further calls are a mistake."""
