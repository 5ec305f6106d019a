"""Flows: durable jobs that belong together under one name, and how many of them are in which state.

Invariant: a flow counts each of its jobs once, in the state that it has or in which it ended. A flow is live
while one of its jobs is. Its counts are stored with the commit that changes them, so they survive a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.changes import FlowRow
from hiringhall.core.errors import BAD_REQUEST, TOO_LARGE, Refusal
from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.jobs import Job
    from hiringhall.core.ledger import Ledger
    from hiringhall.core.limits import Limits

FLOW_NAME_BYTES_MAX: Final = 200
_STATES: Final = 8
"""The states of a job; NEW is -1, the last."""
_STALE_MIN: Final = 256


@mypyc_attr(allow_interpreted_subclasses=True)
class FlowWatcher(Timed):
    """Waits for the end of a flow, or for its own deadline."""

    def flow_ended(self, flow: Flow) -> None:
        """The last live job of the flow has ended."""


class Flow:
    """One flow."""

    __slots__ = (
        "_ids",
        "_stale",
        "counts",
        "created_us",
        "ended_us",
        "jobs",
        "live",
        "name",
        "number",
        "watchers",
    )

    def __init__(self, name: bytes, number: int = 0, created_us: int = 0) -> None:
        self.name = name
        self.number = number
        """The order in which the flows came; 0: it was dropped, or is not among the flows of the hall."""
        self.created_us = created_us
        """When its first job came."""
        self.ended_us = 0
        """When its last live job ended; 0: it is live."""
        self.live = 0
        self.counts = [0] * _STATES
        """Its jobs by state. Those that ended are counted even if the history no longer has them."""
        self.jobs: dict[int, Job] = {}
        """The live ones, and those whose end is not in the history yet, by id."""
        self.watchers: dict[FlowWatcher, None] | None = None
        """Who is told when it ends."""
        self._ids: list[int] | None = None
        """The ids of `jobs`, sorted, and some of jobs that left it; None until a page is asked for."""
        self._stale = 0

    @property
    def total(self) -> int:
        """How many jobs it has had."""
        return self.live + self.counts[DONE] + self.counts[FAILED] + self.counts[CANCELLED]

    def add(self, job: Job) -> None:
        """A job is live."""
        known = job.id in self.jobs
        self.jobs[job.id] = job
        self.live += 1
        ids = self._ids
        if ids is not None and not known:
            if ids and ids[-1] >= job.id:
                self._ids = None  # sorted anew if it is needed again
            else:
                ids.append(job.id)

    def remove(self, job: Job) -> None:
        """The end of a job is in the history, or the job was withdrawn."""
        if self.jobs.pop(job.id, None) is None:
            return
        if self._ids is not None:
            self._stale += 1
            if self._stale > len(self.jobs) + _STALE_MIN:
                self._ids = None

    def before(self, job_id: int, most: int) -> list[Job]:
        """The jobs with the largest ids below `job_id` that are live, or whose end is not in the history yet;
        the newest first.
        """
        if self._ids is None:
            self._ids = sorted(self.jobs)
            self._stale = 0
        ids = self._ids
        found: list[Job] = []
        place = bisect_left(ids, job_id) - 1
        while place >= 0 and len(found) < most:
            job = self.jobs.get(ids[place])
            if job is not None:
                found.append(job)
            place -= 1
        return found

    def watch(self, watcher: FlowWatcher) -> None:
        """Tell it when the flow ends."""
        if self.watchers is None:
            self.watchers = {}
        self.watchers[watcher] = None

    def unwatch(self, watcher: FlowWatcher) -> None:
        if self.watchers is not None:
            self.watchers.pop(watcher, None)

    def row(self) -> FlowRow:
        """The row that the store keeps."""
        counts = self.counts
        return FlowRow(
            self.name, self.created_us, self.ended_us, counts[DONE], counts[FAILED], counts[CANCELLED]
        )


class Flows:
    """All live flows, and the latest that ended. The table tells it of the jobs that belong to one."""

    __slots__ = ("_ended", "_latest", "_ledger", "_max", "by_name", "by_number")

    def __init__(self, limits: Limits, ledger: Ledger) -> None:
        self._max = limits.flows_max
        self._ledger = ledger
        self._latest = 0
        self.by_name: dict[bytes, Flow] = {}
        self.by_number: dict[int, Flow] = {}
        self._ended: dict[bytes, Flow] = {}
        """Those that have ended, the latest at the end."""

    @property
    def latest(self) -> int:
        """The largest number of a flow."""
        return self._latest

    def check(self, name: bytes, durable: bool) -> None:
        """Refuse a name, or a job that cannot belong to a flow."""
        if len(name) > FLOW_NAME_BYTES_MAX:
            raise Refusal(TOO_LARGE, f"the name of a flow may have {FLOW_NAME_BYTES_MAX} bytes")
        if not durable:
            raise Refusal(BAD_REQUEST, "only a durable job can belong to a flow")

    def named(self, name: bytes) -> Flow:
        """The flow that an ended job names, even if it was dropped."""
        return self.by_name.get(name) or Flow(name)

    def enter(self, job: Job, name: bytes, now_us: int) -> None:
        """A new job of a flow, which is made for its first job. Adding a job to an ended flow re-opens it."""
        job.flow = self._open(name, now_us)
        job.flow.add(job)

    def reenter(self, job: Job, now_us: int) -> None:
        """A job that has ended is live again."""
        assert job.flow is not None
        flow = self._open(job.flow.name, now_us)
        if flow is not job.flow:
            # The flow was dropped meanwhile: the new one has not counted the end, which `move` subtracts.
            flow.counts[job.state] += 1
            job.flow = flow
        flow.add(job)
        self._ledger.note_flow(flow)

    def leave(self, job: Job, now_us: int) -> None:
        """A job that is not on disk was withdrawn: it never belonged to the flow."""
        flow = job.flow
        assert flow is not None
        job.flow = None
        job.all_parents = ()
        flow.remove(job)
        flow.counts[job.state] -= 1
        if job.state < DONE:
            flow.live -= 1
            if not flow.live:
                self._end(flow, now_us)
        if flow.number:
            self._ledger.note_flow(flow)

    def ended(self, job: Job, now_us: int) -> None:
        """A job of a flow has ended, and is counted as such."""
        flow = job.flow
        assert flow is not None
        flow.live -= 1
        self._ledger.note_flow(flow)
        if not flow.live:
            self._end(flow, now_us)

    def restore(self, rows: Iterable[FlowRow]) -> None:
        """Take over what the store has, oldest first."""
        for row in rows:
            flow = self._add(row.name, row.created_us)
            flow.counts[DONE] = row.done
            flow.counts[FAILED] = row.failed
            flow.counts[CANCELLED] = row.cancelled
            flow.ended_us = row.ended_us

    def restored(self, now_us: int) -> None:
        """All jobs are there: the flows without a live one have ended."""
        over = [flow for flow in self.by_name.values() if not flow.live]
        for flow in over:
            if not flow.ended_us:
                flow.ended_us = now_us
                self._ledger.note_flow(flow)
        over.sort(key=_ended_us)
        for flow in over:
            self._ended[flow.name] = flow
        self._drop_oldest()

    def _open(self, name: bytes, now_us: int) -> Flow:
        flow = self.by_name.get(name)
        if flow is None:
            flow = self._add(name, now_us)
            self._ledger.note_flow(flow)
        elif flow.ended_us:
            self._ended.pop(name, None)
            flow.ended_us = 0
            self._ledger.note_flow(flow)
        return flow

    def _add(self, name: bytes, created_us: int) -> Flow:
        self._latest += 1
        flow = self.by_name[name] = self.by_number[self._latest] = Flow(name, self._latest, created_us)
        return flow

    def _end(self, flow: Flow, now_us: int) -> None:
        if not flow.total:
            # All of its jobs were withdrawn.
            self._drop(flow)
            return
        flow.ended_us = now_us
        self._ended[flow.name] = flow
        self._drop_oldest()
        watchers = flow.watchers
        if watchers is not None:
            flow.watchers = None
            for watcher in watchers:
                watcher.flow_ended(flow)

    def _drop_oldest(self) -> None:
        """Drop several at once: to find its first entry, a dict has to pass over all deleted ones."""
        if len(self._ended) <= self._max:
            return
        wanted = self._max - self._max // 16
        oldest = list(self._ended.values())[: len(self._ended) - wanted]
        for flow in oldest:
            del self._ended[flow.name]
            self._drop(flow)

    def _drop(self, flow: Flow) -> None:
        del self.by_name[flow.name]
        del self.by_number[flow.number]
        flow.number = 0
        self._ledger.note_flow(flow)


def _ended_us(flow: Flow) -> int:
    return flow.ended_us
