"""The requests of a connection, and what becomes of their answers.

Invariant: every caller gets exactly one answer. Callers whose jobs shared a frame do not feel it: when the hall
refuses one of the jobs, and with it the frame, each job is submitted alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from hiringhall.dialects.native import wire
from hiringhall.sdk.conversation import JobSpec, Request
from hiringhall.sdk.errors import HallRefused
from hiringhall.sdk.watching import ENDS, Bulk, Watch, Watches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.sdk.errors import HallError

SUBMIT_JOBS_MAX: Final = 1000
"""Jobs of one frame."""
SUBMIT_BYTES_MAX: Final = 4 << 20
"""Payloads of one frame, unless one alone is longer."""


class Caller(Protocol):
    """Who waits for the watch of a job: a future of the event loop, or the reply of another thread."""

    def done(self) -> bool: ...

    def set_result(self, result: Watch, /) -> None: ...

    def set_exception(self, exception: HallError, /) -> None: ...


class Ask(Request):
    """One caller waits for one answer."""

    __slots__ = ("_answer",)

    def __init__(self, kind: str, body: Any, answer: asyncio.Future[Any]) -> None:
        super().__init__(kind, body)
        self._answer = answer

    def answered(self, body: Any) -> None:
        if not self._answer.done():
            self._answer.set_result(body)

    def failed(self, error: HallError) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)


class SubmitBulk(Request):
    """Jobs of one caller, each with a key that nobody else has. `first` is the place of the first."""

    __slots__ = ("_bulk", "_first", "_jobs", "_level", "_watches")

    def __init__(
        self, jobs: list[JobSpec], bulk: Bulk, first: int, watches: Watches, *, level: int, again: bool
    ) -> None:
        super().__init__(wire.SUBMIT, None)
        self.again = again
        self._level = level
        self._jobs = jobs
        self._bulk = bulk
        self._first = first
        self._watches = watches

    def encode(self) -> bytes:
        return _encode(self, self._jobs, again=self.again, level=self._level)

    def answered(self, body: Any) -> None:
        self._bulk.places.update(zip(body, range(self._first, self._first + len(body)), strict=True))
        self._watches.add_bulk(body, self._bulk)
        self._bulk.wake()

    def failed(self, error: HallError) -> None:
        self._bulk.failed = error
        self._bulk.wake()


class Submit(Request):
    """Jobs of several callers.

    A job whose key was chosen by the user may have had a namesake that ended long ago. Such a submit says
    `again` only if the hall's answer can be told from that one: ids grow, so an id that is not above the last
    one seen before the first attempt is an older job, and the new one is submitted once more.
    """

    __slots__ = ("_callers", "_jobs", "_keyed", "_seen_id", "_submits")

    def __init__(self, submits: Submits, jobs: list[JobSpec], callers: list[Caller], *, keyed: bool) -> None:
        super().__init__(wire.SUBMIT, None)
        self._submits = submits
        self._jobs = jobs
        self._callers = callers
        self._keyed = keyed
        self._seen_id = submits.seen_id

    def encode(self) -> bytes:
        return _encode(self, self._jobs, again=self._says_again)

    @property
    def _says_again(self) -> bool:
        return self.again and not (self._keyed and not self._seen_id)

    def answered(self, body: Any) -> None:
        submits = self._submits
        oldest_id = self._seen_id if self._keyed and self._says_again else 0
        for job_id, job, caller in zip(body, self._jobs, self._callers, strict=True):
            if caller.done():
                continue
            if job_id <= oldest_id:
                submits.start(Submit(submits, [job], [caller], keyed=True))
                continue
            caller.set_result(submits.watches.add(job_id, submits.owner))
        submits.seen_id = max(submits.seen_id, *body)

    def failed(self, error: HallError) -> None:
        if len(self._jobs) > 1 and isinstance(error, HallRefused):
            for job, caller in zip(self._jobs, self._callers, strict=True):
                if not caller.done():
                    self._submits.start(Submit(self._submits, [job], [caller], keyed=self._keyed))
            return
        for caller in self._callers:
            if not caller.done():
                caller.set_exception(type(error)(*error.args))


class Submits:
    """Collects the jobs that are submitted in one pass of the event loop."""

    def __init__(self, start: Callable[[Request], None], watches: Watches, owner: object) -> None:
        self.start = start
        self.watches = watches
        self.owner = owner
        self.seen_id = 0
        """The highest id that this hall has told."""
        self._open: dict[tuple[bool, bool], tuple[list[JobSpec], list[Caller]]] = {}

    def add(self, job: JobSpec, caller: Caller, *, durable: bool, keyed: bool) -> None:
        if not self._open:
            asyncio.get_running_loop().call_soon(self._flush)
        # The jobs of a frame must be all durable, or all not.
        group = self._open.get((durable, keyed))
        if group is None:
            group = self._open[durable, keyed] = ([], [])
        group[0].append(job)
        group[1].append(caller)

    def _flush(self) -> None:
        groups, self._open = self._open, {}
        for (_, keyed), (jobs, callers) in groups.items():
            start = 0
            for part in parts(jobs):
                end = start + len(part)
                self.start(Submit(self, part, callers[start:end], keyed=keyed))
                start = end


def parts(jobs: list[JobSpec]) -> Iterator[list[JobSpec]]:
    """The jobs in lists that each fit a frame."""
    part: list[JobSpec] = []
    size = 0
    for job in jobs:
        size += len(job[1])
        if part and (len(part) == SUBMIT_JOBS_MAX or size > SUBMIT_BYTES_MAX):
            yield part
            part, size = [], len(job[1])
        part.append(job)
    if part:
        yield part


def _encode(request: Request, jobs: list[JobSpec], *, again: bool, level: int = ENDS) -> bytes:
    body = (level, jobs, True) if again else (level, jobs)
    return wire.encode(wire.SUBMIT, request.number, body)
