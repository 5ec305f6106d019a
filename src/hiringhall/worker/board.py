"""What a worker has done and what happens to it: counts for each function, and events for people and programs.

Invariant: an event has a name, a text for people and fields for programs; others decide where it is shown.
Jobs that end well are counted, and make no event.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from hiringhall.sdk.failures import Failure
from hiringhall.worker.tasks import Counts

if TYPE_CHECKING:
    from hiringhall.worker.process import Child

_FAIL: Final = msgspec.msgpack.Decoder(tuple[str, int, tuple[int, int, bytes, bool]])
_FAILURE: Final = msgspec.json.Decoder(Failure)
_TEXT_CHARS_MAX: Final = 200
_TRACE_CHARS_MAX: Final = 4000
JOBS_A_SECOND: Final = 20
"""Events about single jobs; each costs more than the job itself."""


class Told(Protocol):
    """Shows events."""

    def event(self, name: str, text: str, fields: dict[str, Any]) -> None: ...


class Taken(Protocol):
    """A job that a worker has taken."""

    job: int
    counts: Counts


class Board:
    """The state of the worker, for the screen and for the log."""

    def __init__(self, told: Told, grace_s: float) -> None:
        self._told = told
        self.grace_s = grace_s
        self.counts: dict[bytes, Counts] = {}
        self.links: dict[str, str] = {}
        """By kind of functions: the address of the hall, or empty while there is no connection."""
        self.drained_modes: set[str] = set()
        """The kinds of functions whose worker the hall drains."""
        self.hall = ""
        self.trouble = ""
        """Why there is no connection, or why nothing can run."""
        self.on_drained: list[Any] = []
        self._second = 0
        self._told_in_second = 0
        self._away: bool | None = None
        """What was told last: the hall is away, or not."""

    def counts_of(self, queue: bytes) -> Counts:
        counts = self.counts.get(queue)
        if counts is None:
            counts = self.counts[queue] = Counts(queue.decode("utf-8", "backslashreplace"))
        return counts

    def tell(self, name: str, text: str, **fields: Any) -> None:
        self._told.event(name, text, fields)

    # --- the hall

    def connected(self, mode: str, address: str, hall: str) -> None:
        self.links[mode] = address
        self.drained_modes.discard(mode)
        self.hall = hall
        self.trouble = ""
        if self._away is not False:
            self._away = False
            self.tell(
                "connected", f"connected to {hall or 'the hall'} at {address}", address=address, hall=hall
            )

    def disconnected(self, mode: str, reason: str) -> None:
        self.links[mode] = ""
        self.trouble = f"no hall: {reason}; trying again"
        if self._away is not True:
            self._away = True
            self.tell("disconnected", self.trouble, reason=reason)

    def hall_drains(self, mode: str, draining: bool) -> None:
        """An operator of the hall drains the worker of these functions, or no longer does."""
        if draining:
            self.drained_modes.add(mode)
            self.tell("drained", f"the hall drains this worker ({mode}): it gets no more jobs", mode=mode)
        else:
            self.drained_modes.discard(mode)
            self.tell("undrained", f"this worker ({mode}) gets jobs again", mode=mode)

    def refused(self, text: str) -> None:
        self.tell("refused", f"the hall refuses: {text}", reason=text)

    # --- jobs

    def failed(self, task: Taken, frame: bytes) -> None:
        _, code, data, _ = _FAIL.decode(memoryview(frame)[4:])[2]
        try:
            failure = _FAILURE.decode(data)
        except (msgspec.MsgspecError, ValueError):
            failure = Failure(text=data.decode("utf-8", "backslashreplace"))
        kind, said = failure.type, failure.text
        lines = said.splitlines() or [""]
        short = lines[0][:_TEXT_CHARS_MAX]
        words = f"{kind}: {short}" if kind and short else kind or short
        trace = failure.traceback[-_TRACE_CHARS_MAX:]
        text = f"failed (code {code}): {words}" + (f"\n{trace.rstrip()}" if trace else "")
        self._job(task, "failed", text, code=code, type=kind, reason=said, traceback=trace)

    def lost(self, task: Taken, reason: str) -> None:
        self._job(task, "lost", f"lost: {reason}", reason=reason)

    def stopped(self, task: Taken) -> None:
        self._job(task, "stopped", "stopped: cancelled, over its time, or given to another worker")

    def released(self, task: Taken) -> None:
        self._job(task, "released", "given back: the worker ends")

    def stuck(self, task: Taken, child: Child) -> None:
        text = f"does not stop; process {child.pid} is replaced"
        self._job(task, "stuck", text, pid=child.pid)

    def _job(self, task: Taken, name: str, text: str, **fields: Any) -> None:
        """Tell of a job. Of many in a second the first few are told; all are counted."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._told_in_second = second, 0
        self._told_in_second += 1
        if self._told_in_second > JOBS_A_SECOND:
            if self._told_in_second == JOBS_A_SECOND + 1:
                self.tell("more", "more jobs did not end well in this second; see the counts")
            return
        queue = task.counts.queue
        self.tell(name, f"{queue} {task.job} {text}", queue=queue, job=task.job, **fields)

    # --- processes

    def over_memory(self, child: Child, used: int, limit: int) -> None:
        text = f"process {child.pid} used {used >> 20} MiB, more than {limit >> 20} MiB: ended"
        self.tell("memory", text, pid=child.pid, used=used, limit=limit)

    def drained(self) -> None:
        """A pool that drains has no more jobs."""
        for call in self.on_drained:
            call()


def counted(count: int, noun: str) -> str:
    """A number of things: 1 process, 2 processes."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def stamp() -> str:
    """The time of an event, for people."""
    return time.strftime("%H:%M:%S")
