"""What the engine needs of the store: a place to send batches and questions to, without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, HistoryQuery
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session


class Writer(Protocol):
    """Passes everything on to the store and returns at once. Each answer comes inside a later turn."""

    def write(self, batch: Batch, now_us: int) -> None:
        """Commit; answered by `Engine.committed`, `Engine.failed` or `Engine.unknown`. An empty batch only
        tests the store.
        """
        ...

    def settle(self) -> None:
        """Find out whether the last batch is on disk, after `Engine.unknown`; answered as `write` is."""
        ...

    def look_up(self, session: Session, job_id: int) -> None:
        """Read one job from the history; answered by `Engine.looked_up`."""
        ...

    def search(self, query: HistoryQuery) -> None:
        """Read a page of the history; answered by `Engine.searched`."""
        ...

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        """Read what the workers of a job said; answered by `Engine.output_looked_up`."""
        ...

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        """Read the latest ends of these jobs from the history; answered by `Engine.parents_looked_up`."""
        ...
