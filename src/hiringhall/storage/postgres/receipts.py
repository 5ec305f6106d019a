"""The latest commits, to write them again if the server goes on without them.

Invariant: the commits that are kept here follow each other, up to the last one. A fail-over to a replica that
lagged behind loses the latest commits although they had been acknowledged.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from hiringhall.storage.postgres.writing import Commit

KEPT_S: Final = 10.0
KEPT_BYTES: Final = 64 << 20
ROW_BYTES: Final = 500
"""What a row takes in memory, without its content."""
IDS_MAX: Final = 100_000
"""Jobs of older commits that can still be named."""
NAMED_MAX: Final = 1000
"""Jobs that a message names."""


class _Kept(NamedTuple):
    commit: Commit
    at_s: float
    size: int


class Receipts:
    """Commits of the last `KEPT_S` seconds, up to `KEPT_BYTES`; of older ones the ids of their jobs."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._named: deque[tuple[int, list[int]]] = deque()
        self._ids = 0

    def add(self, commit: Commit) -> None:
        now_s = time.monotonic()
        size = commit.content_bytes + ROW_BYTES * (1 + len(commit.ids))
        self._kept.append(_Kept(commit, now_s, size))
        self._bytes += size
        self._named.append((commit.batch, commit.ids))
        self._ids += len(commit.ids)
        while self._kept and (self._bytes > KEPT_BYTES or self._kept[0].at_s < now_s - KEPT_S):
            self._bytes -= self._kept.popleft().size
        while self._ids > IDS_MAX and len(self._named) > 1:
            self._ids -= len(self._named.popleft()[1])

    def after(self, batch: int) -> list[Commit]:
        """All commits after a batch; none if one of them is not kept any more."""
        found = [kept.commit for kept in self._kept if kept.commit.batch > batch]
        return found if found and found[0].batch == batch + 1 else []

    def report(self, batch: int, last: int, restored: int, place: str) -> str:
        """What happened, for the log: the server has commits up to `batch`, of `last` that it acknowledged."""
        lost = (
            f"{place} lost {last - batch} commits that it had acknowledged, as after a fail-over to a replica"
        )
        if restored == last - batch:
            return f"{lost}: all of them were written again"
        ids = [job_id for number, jobs in self._named if number > batch for job_id in jobs]
        named = ", ".join(map(str, ids[:NAMED_MAX]))
        more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
        return f"{lost}: jobs that changed in them, as far as they are known: {named}{more}"
