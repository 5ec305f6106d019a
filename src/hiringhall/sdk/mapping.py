"""A job for each item of an iterable: submitted in bulk, with a limited number under way.

Invariant: at most `window` jobs are submitted whose results the caller has not been given (in order) or whose
ends have not been heard of (as they come), so that memory is bounded for an endless iterable. The iterable is
read, and results are decoded, in the caller's thread.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hiringhall.sdk import codec
from hiringhall.sdk.bars import bar
from hiringhall.sdk.errors import HallError
from hiringhall.sdk.failures import decode_failure, not_kept
from hiringhall.sdk.requests import SUBMIT_JOBS_MAX
from hiringhall.sdk.watching import Bulk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator

    from hiringhall.sdk.conversation import Ended, JobSpec
    from hiringhall.sdk.functions import JobFunction

R = TypeVar("R")
WINDOW: Final = 2000
"""Jobs under way unless the caller says otherwise."""
FILL_S: Final = 0.02
"""A slow iterable is not waited for longer than this before its first items are submitted."""


class Mapping(Generic[R]):
    """One map: what was submitted, and what has ended. `each` and `each_async` drive it."""

    def __init__(
        self,
        function: JobFunction[..., R],
        calls: Iterable[tuple[Any, ...]],
        length: int | None,
        *,
        ordered: bool,
        window: int,
    ) -> None:
        if window < 1:
            raise ValueError(f"window must be 1 or more, not {window}")
        if function.settings.key is not None:
            raise ValueError("with a key all jobs of a map would be joined into one: leave the key out")
        self.function = function
        self.length = length
        self._calls = iter(calls)
        self._ordered = ordered
        self._window = window
        self._bulk = Bulk()
        self._exhausted = False
        self._submitted = 0
        self._ended = 0
        self._given = 0
        """Results that the caller has."""
        self._early: dict[int, Ended] = {}
        """Ends that came before their turn, by place."""

    def step(self) -> Coroutine[Any, Any, list[Ended]] | None:
        """Read the iterable; then what to run on the event loop. None: all results are there."""
        jobs = self._fill()
        if not jobs and self._ended == self._submitted:
            return None
        first = self._submitted
        self._submitted += len(jobs)
        return self._advance(jobs, first)

    def _fill(self) -> list[JobSpec]:
        """The next jobs, if there is room for enough of them to be worth a frame."""
        under_way = self._submitted - (self._given if self._ordered else self._ended)
        room = min(self._window - under_way, SUBMIT_JOBS_MAX)
        jobs: list[JobSpec] = []
        waits = self._submitted > self._ended
        if self._exhausted or room <= 0 or (waits and room < min(self._window // 4, SUBMIT_JOBS_MAX // 2)):
            return jobs
        until_s = time.monotonic() + FILL_S
        spec = self.function.spec
        for args in self._calls:
            jobs.append(spec(args, {}))
            if len(jobs) == room or time.monotonic() > until_s:
                return jobs
        self._exhausted = True
        return jobs

    async def _advance(self, jobs: list[JobSpec], first: int) -> list[Ended]:
        """Submit these jobs, and wait until at least one job has ended."""
        connection = self.function.hall.connection()
        if jobs:
            connection.submit_bulk(jobs, self._bulk, first)
        return await connection.bulk_ends(self._bulk)

    async def close(self) -> None:
        """The caller wants no more results. What was submitted goes on."""
        self.function.hall.connection().drop_bulk(self._bulk)

    def take(self, ends: list[Ended]) -> Iterator[R]:
        """The results that the caller gets now."""
        self._ended += len(ends)
        places = self._bulk.places
        if not self._ordered:
            for end in ends:
                places.pop(end.job_id)
                self._given += 1
                yield self._read(end)
            return
        early = self._early
        for end in ends:
            early[places.pop(end.job_id)] = end
        while (next_end := early.pop(self._given, None)) is not None:
            self._given += 1
            yield self._read(next_end)

    def _read(self, end: Ended) -> R:
        if end.state != "done":
            raise decode_failure(end.job_id, self.function.queue, end.code, end.result)
        if end.truncated:
            raise not_kept(end.job_id)
        result: R = codec.decode_result(self.function, end.result)
        return result


def each(mapping: Mapping[R], *, progress: bool) -> Iterator[R]:
    """The results, for a blocking caller."""
    run = mapping.function.hall.run
    finished = False
    with bar(mapping.function.queue, mapping.length, shown=progress) as advance:
        try:
            while (step := mapping.step()) is not None:
                for result in mapping.take(run(step)):
                    advance()
                    yield result
            finished = True
        finally:
            if not finished:
                # A map that is left at the end of the program has no connection any more.
                with contextlib.suppress(HallError):
                    run(mapping.close())


async def each_async(mapping: Mapping[R], *, progress: bool) -> AsyncIterator[R]:
    """The results, for a caller on an event loop."""
    finished = False
    with bar(mapping.function.queue, mapping.length, shown=progress) as advance:
        try:
            while (step := mapping.step()) is not None:
                for result in mapping.take(await step):
                    advance()
                    yield result
            finished = True
        finally:
            if not finished:
                await mapping.close()
