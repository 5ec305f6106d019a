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
RANGES_LISTED: Final = 20
"""Ranges of ids in one line of the log, which cuts long lines."""


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

    def report(self, batch: int, last: int, restored: int, place: str) -> list[str]:
        """What happened, as lines for the log: the server has commits up to `batch`, of `last` that it
        acknowledged.
        """
        lost = (
            f"{place} lost {last - batch} commits that it had acknowledged, as after a fail-over to a replica"
        )
        if restored == last - batch:
            return [f"{lost}: all of them were written again"]
        ids = {job_id for number, jobs in self._named if number > batch for job_id in jobs}
        known = bool(self._named) and self._named[0][0] <= batch + 1
        named = _ranges(sorted(ids))
        return [
            f"{lost}: {'' if known else 'at least '}{len(ids)} jobs had changed, which are named here",
            *[
                f"lost changes of jobs: {', '.join(named[first : first + RANGES_LISTED])}"
                for first in range(0, len(named), RANGES_LISTED)
            ],
        ]


def _ranges(ids: list[int]) -> list[str]:
    """Ids in their order, as ranges such as 7-9."""
    named: list[str] = []
    first = last = 0
    for job_id in [*ids, 0]:
        if job_id == last + 1:
            last = job_id
            continue
        if last:
            named.append(str(first) if first == last else f"{first}-{last}")
        first = last = job_id
    return named
