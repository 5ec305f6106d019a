"""A submitted job as its client sees it, and its status values."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.errors import GearmanError, JobFailed
from hiringhall.peers.updates import JobUpdates


class Receipt(NamedTuple):
    """A background job that the server has accepted."""

    handle: bytes
    server: str


End = Literal["", "done", "failed", "cancelled", "ended"]


class Status(NamedTuple):
    """What the server knows about a job."""

    known: bool
    running: bool
    numerator: int
    denominator: int
    clients: int = 0
    """How many clients wait for it; only for a status by unique."""
    end: End = ""
    """How it ended: "done", "failed", "cancelled", or "ended" if that is unknown. Empty: it has not ended, or
    the server does not tell."""


class Progress(NamedTuple):
    """How much is done: numerator of denominator."""

    numerator: int
    denominator: int


class Data(NamedTuple):
    """A part of the result, sent before the end."""

    data: bytes


class Warned(NamedTuple):
    """A warning of the worker; the job continues."""

    data: bytes


Update = Progress | Data | Warned


def parse_number(text: bytes) -> int:
    """A progress number. It is free text on the wire: fractions are truncated, invalid text counts as 0."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return 0


def parse_status(body: bytes) -> Status | None:
    """The answer to a status request, by handle or by unique; None: malformed."""
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


class AsyncJob(JobUpdates[Update, GearmanError]):
    """A foreground job. Iterate over it for its updates; `result` waits for its end.

        job = await client.submit("resize", photo)
        async for update in job:
            print(update)
        small = await job.result()

    Updates are kept until they are iterated over; the iteration ends with the job. `result` raises JobFailed,
    or ConnectionLost if the end will never be known.
    """

    def __init__(self, server: str) -> None:
        super().__init__()
        self.server = server
        self.handle = b""
        """Set before the client returns the job."""
        self.progress = Progress(0, 0)
        """The latest progress."""

    def received(self, packet_type: int, body: bytes) -> bool:
        """Handle the body of a WORK_* packet after its handle. Return whether the job continues."""
        if packet_type == wire.WORK_COMPLETE:
            self.finish(body)
        elif packet_type == wire.WORK_FAIL:
            self.finish(JobFailed(handle=self.handle))
        elif packet_type == wire.WORK_EXCEPTION:
            self.finish(JobFailed(body, self.handle))
        elif packet_type == wire.WORK_STATUS:
            numerator, _, denominator = body.partition(b"\0")
            self.progress = Progress(parse_number(numerator), parse_number(denominator))
            self.add_update(self.progress)
        elif packet_type == wire.WORK_DATA:
            self.add_update(Data(body))
        elif packet_type == wire.WORK_WARNING:
            self.add_update(Warned(body))
        return not self.ended
