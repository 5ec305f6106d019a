"""A store without a disk, for simulations and for halls that need not remember.

The law: it does what the other stores do, no more and no less; its rows outlive `close`, so that a
simulated hall can die and open again on what was committed.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from hiringhall.core.changes import Loaded
from hiringhall.core.jobs import FAILED
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.retention import Expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow
    from hiringhall.storage.contract import HistoryQuery

_BY_END = attrgetter("ended_us", "id")


class MemoryStore:
    """Rows in dicts. A fault is injected from outside, by a store that wraps this one."""

    def __init__(self, retention: Retention | None = None) -> None:
        self._retention = Retention() if retention is None else retention
        self._expiry = Expiry(self._retention)
        self._epoch = 0
        self._jobs: dict[int, JobRow] = {}
        self._ended: dict[int, EndRow] = {}
        """Lines that are no dead letters, in the order in which they came: the oldest is first."""
        self._dead: dict[int, EndRow] = {}
        """Dead letters, likewise."""

    def load(self, ended_max: int) -> Loaded:
        self._epoch += 1
        latest = sorted([*self._ended.values(), *self._dead.values()], key=_BY_END)
        ended = [row._replace(result=b"") for row in latest[max(0, len(latest) - ended_max) :]]
        return Loaded(self._epoch, self.live(), ended)

    def commit(self, batch: Batch, now_us: int) -> None:
        for row in batch.inserts:
            if row.id in self._jobs:
                raise StoreError(f"job {row.id} is stored already: nothing of the batch was kept")
        for job_id in batch.revived:
            self._dead.pop(job_id, None)
            self._ended.pop(job_id, None)
        for end in batch.ends:
            self._write_end(end)
        for row in batch.inserts:
            self._jobs[row.id] = row._replace(extras=None) if row.extras == {} else row
        for update in batch.updates:
            if update.id in self._jobs:
                changed = update._replace(extras=update.extras or None)
                self._jobs[update.id] = self._jobs[update.id]._replace(**changed._asdict())
        lines = len(self._ended) + len(self._dead)
        if self._expiry.due(now_us, lines):
            self._expiry.run(self._drop, now_us, lines, len(batch.ends))

    def probe(self) -> None:
        """Memory can always take a commit."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        if query.id is not None:
            row = self._ended.get(query.id) or self._dead.get(query.id)
            rows = [] if row is None else [row]
        else:
            rows = [*self._ended.values(), *self._dead.values()]
        found = [row for row in rows if _matches(row, query)]
        found.sort(key=attrgetter("id"), reverse=True)
        return found[: query.limit]

    def live(self) -> Iterator[JobRow]:
        return iter([self._jobs[job_id] for job_id in sorted(self._jobs)])

    def count(self) -> tuple[int, int]:
        return len(self._jobs), len(self._ended) + len(self._dead)

    def close(self) -> None:
        """Nothing to put in order: the rows stay for the next `load`."""

    def _write_end(self, end: EndRow) -> None:
        """An end takes the job out of the live ones, and the place of an earlier end."""
        self._jobs.pop(end.id, None)
        self._ended.pop(end.id, None)
        self._dead.pop(end.id, None)
        result = end.result[: self._retention.result_bytes_max]
        shelf = self._dead if end.state == FAILED else self._ended
        shelf[end.id] = end._replace(result=result, extras=end.extras or None)

    def _drop(self, dead: bool, before_us: int, lines_max: int) -> int:
        shelf = self._dead if dead else self._ended
        going: list[int] = []
        for row in shelf.values():
            if len(going) >= lines_max or row.ended_us >= before_us:
                break
            going.append(row.id)
        for job_id in going:
            del shelf[job_id]
        return len(going)


def _matches(row: EndRow, query: HistoryQuery) -> bool:
    return (
        (query.queue is None or row.queue == query.queue)
        and (query.key is None or row.key == query.key)
        and (query.state is None or row.state == query.state)
        and (query.ended_from_us is None or row.ended_us >= query.ended_from_us)
        and (query.ended_to_us is None or row.ended_us <= query.ended_to_us)
        and (query.before_id is None or row.id < query.before_id)
    )
