"""A submitted job as its client sees it, and the small values that tell of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.errors import GearmanError, JobFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Receipt(NamedTuple):
    """A background job that the server has taken in."""

    handle: bytes
    server: str


End = Literal["", "done", "failed", "cancelled", "ended"]


class Status(NamedTuple):
    """What the server knows of a job."""

    known: bool
    running: bool
    numerator: int
    denominator: int
    clients: int = 0
    """How many clients wait for it; told only when asked by unique."""
    end: End = ""
    """How it ended: "done", "failed", "cancelled", or "ended" if it is not known how. Empty: it has not ended,
    or the server does not tell."""


class Progress(NamedTuple):
    """So much of so much is done."""

    numerator: int
    denominator: int


class Data(NamedTuple):
    """A piece of the result, ahead of the end."""

    data: bytes


class Warned(NamedTuple):
    """Something the worker wants known; the job goes on."""

    data: bytes


Update = Progress | Data | Warned


def parse_number(text: bytes) -> int:
    """A progress number. It is free text on the wire: a fraction is cut, nonsense counts as 0."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return 0


def parse_status(body: bytes) -> Status | None:
    """The answer to a question for a job's status, by handle or by unique; None: it makes no sense."""
    args = body.split(b"\0")
    if len(args) not in {5, 6}:
        return None
    numbers = [parse_number(arg) for arg in args[1:]]
    known, running, numerator, denominator, clients = (*numbers, 0)[:5]
    return Status(bool(known), bool(running), numerator, denominator, clients)


def read_end(line: str) -> End:
    """The answer to the text command `outcome`."""
    ok, _, rest = line.partition(" ")
    word = rest.partition(" ")[0]
    return cast("End", word) if ok == "OK" and word in get_args(End) else ""


class AsyncJob:
    """A foreground job. Iterate over it for its updates, as they come; `result` waits for its end.

        job = await client.submit("resize", photo)
        async for update in job:
            print(update)
        small = await job.result()

    Updates are kept until somebody iterates, and the iteration ends when the job does.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.handle = b""
        """Set before the client hands the job out."""
        self.progress = Progress(0, 0)
        """The latest."""
        self._updates: deque[Update] = deque()
        self._news = asyncio.Event()
        self._outcome: bytes | GearmanError | None = None
        """None: it runs."""
        self._end = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._end.is_set()

    async def result(self) -> bytes:
        """The bytes of its end; raises JobFailed, or ConnectionLost when the end will not be heard of."""
        await self._end.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, bytes):
            return self._outcome
        raise self._outcome

    async def __aiter__(self) -> AsyncIterator[Update]:
        while True:
            while self._updates:
                yield self._updates.popleft()
            if self._end.is_set():
                return
            self._news.clear()
            await self._news.wait()

    def told(self, packet_type: int, body: bytes) -> bool:
        """Take in a WORK_* packet's body after its handle; says whether the job goes on."""
        if packet_type == wire.WORK_COMPLETE:
            self.finish(body)
        elif packet_type == wire.WORK_FAIL:
            self.finish(JobFailed(handle=self.handle))
        elif packet_type == wire.WORK_EXCEPTION:
            self.finish(JobFailed(body, self.handle))
        elif packet_type == wire.WORK_STATUS:
            numerator, _, denominator = body.partition(b"\0")
            self.progress = Progress(parse_number(numerator), parse_number(denominator))
            self._update(self.progress)
        elif packet_type == wire.WORK_DATA:
            self._update(Data(body))
        elif packet_type == wire.WORK_WARNING:
            self._update(Warned(body))
        return not self._end.is_set()

    def finish(self, outcome: bytes | GearmanError) -> None:
        """Its end is known."""
        if not self._end.is_set():
            self._outcome = outcome
            self._end.set()
            self._news.set()

    def _update(self, update: Update) -> None:
        self._updates.append(update)
        self._news.set()
