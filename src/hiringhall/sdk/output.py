"""What a job says while it runs: chunks, warnings and log lines, as the hall keeps them.

Invariant: each line is given once and in order, also when the connection is lost in between: a reader asks from
the position that it has reached, and a frame about a new line only wakes it.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from hiringhall.sdk.watching import ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hiringhall.sdk.hall import Hall

OUTPUT: Final = "output"
LineKind: TypeAlias = Literal["data", "warning", "log"]
_KINDS: Final[tuple[LineKind, ...]] = ("data", "warning", "log")


class Line(NamedTuple):
    """A piece of a job's output."""

    at: dt.datetime
    kind: LineKind
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


class Output:
    """Reads the output of one job, from its beginning."""

    def __init__(self, hall: Hall, job_id: int) -> None:
        self._hall = hall
        self._id = job_id
        self._position = 0

    async def read(self) -> list[Line]:
        """What is new and there."""
        lines: list[Line] = []
        while True:
            connection = self._hall.connection()
            page, self._position = await connection.request(OUTPUT, (self._id, self._position))
            if not page:
                return lines
            lines += [
                Line(dt.datetime.fromtimestamp(at_us / 1e6, dt.UTC), _KINDS[kind], data)
                for at_us, kind, data in page
            ]

    async def follow(self) -> AsyncIterator[list[Line]]:
        """What is there, then what comes, until the job has ended."""
        connection = self._hall.connection()
        watch = await connection.watch(self._id, ALL)
        while True:
            settled = watch.settled
            watch.news = False
            lines = await self.read()
            if lines:
                yield lines
            if settled:
                return
            while not watch.settled and not watch.news:
                await connection.heard(watch)
