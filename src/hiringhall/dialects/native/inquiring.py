"""Requests about one job by its id, whichever dialect it came from: what it is, how it ended, cancel and retry.

Invariant: what memory does not have is looked up in the history, for a bounded number of requests of one
connection at once. Each of them is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, UNKNOWN_JOB, WRONG_STATE, Refusal
from hiringhall.core.states import FAILED, STATE_NAMES
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.submitting import ENDS_BYTES_MAX

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.native.session import NativeSession

RETRY: Final = -1
"""In place of a level: the job is to be retried."""


class Inquiries:
    """The requests of one connection about single jobs."""

    __slots__ = ("_asked", "_context", "_lookups", "_scheduler", "_session")

    def __init__(self, session: NativeSession, context: NativeContext) -> None:
        self._session = session
        self._context = context
        self._scheduler = context.scheduler
        self._asked: dict[int, list[tuple[int, int]]] = {}
        """Requests that wait for the history, by job: their numbers, and the levels of those that watch, or
        RETRY."""
        self._lookups = 0
        """How many of them there are."""

    def tell(self, number: int, job_id: int, level: int) -> None:
        """Describe a job: a live one, one that has just ended, or one in the history. A watcher of some level
        is also told the end.
        """
        scheduler = self._scheduler
        unwritten = scheduler.unwritten(job_id)
        job = unwritten if unwritten is not None else scheduler.find(job_id)
        if job is not None and not job.ended:
            self._session.answer(number, describing.live_job(scheduler, job))
        elif unwritten is not None:
            # Its end is about to be stored: until then it could be lost with the hall.
            told = self._told_end(number, job_id, describing.ended_job(scheduler, unwritten), level)
            if told:
                self._session.pledge(told)
        elif job is not None and not job.logged:
            # It was never durable: its result is not kept.
            self._send_end(number, job.id, describing.unkept_job(scheduler, job), level)
        else:
            self._look_up(number, job_id, level)

    def cancel(self, number: int, body: Raw) -> None:
        # [68719476737, "no longer wanted"]
        job_id, reason = wire.decode(wire.CANCEL_BODY, body)
        job = self._scheduler.find(job_id)
        if job is None:
            raise Refusal(UNKNOWN_JOB, f"job {job_id} is not known, or ended long ago")
        durable = job.terms.durable
        self._scheduler.cancel(job, reason)
        self._confirm(number, durable=durable)

    def retry(self, number: int, body: Raw) -> None:
        # [68719476737]
        (job_id,) = wire.decode(wire.ID_BODY, body)
        # What was dropped from memory may not be in the history yet.
        job = self._scheduler.find(job_id) or self._scheduler.unwritten(job_id)
        if job is None:
            self._look_up(number, job_id, RETRY)
            return
        self._retry(number, job)

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:
        """The history was asked for a job: answer the requests that wait for it."""
        waiting = self._asked.pop(job_id, [])
        for place, (number, level) in enumerate(waiting):
            if place and self._session.out_bytes > ENDS_BYTES_MAX:
                self._asked[job_id] = waiting[place:]
                self._context.look_up(self._session, job_id)
                break
            self._lookups -= 1
            try:
                if trouble:
                    raise Refusal(STORE_DOWN, trouble)
                if level == RETRY:
                    self._retry_looked_up(number, job_id, line)
                elif line is not None:
                    self._send_end(number, job_id, describing.history_row(line), level)
                else:
                    self._tell_unrecorded(number, job_id, level)
            except Refusal as refusal:
                self._session.refuse(number, refusal.reason, refusal.text)

    def _look_up(self, number: int, job_id: int, level: int) -> None:
        """Ask the history; `looked_up` answers the request."""
        if ids.epoch_of(job_id) > self._scheduler.epoch:
            raise Refusal(UNKNOWN_JOB, f"no job has the id {job_id}")
        if self._lookups >= self._context.options.lookups_max:
            raise Refusal(
                HALL_FULL, f"{self._lookups} requests of this connection wait for the history (lookups_max)"
            )
        self._lookups += 1
        waiting = self._asked.setdefault(job_id, [])
        waiting.append((number, level))
        if len(waiting) == 1:
            self._context.look_up(self._session, job_id)

    def _retry(self, number: int, job: Job) -> None:
        if job.state != FAILED:
            raise Refusal(WRONG_STATE, f"job {job.id} is {STATE_NAMES[job.state]}, not failed")
        self._scheduler.retry(job)
        self._confirm_retry(number, job)

    def _retry_looked_up(self, number: int, job_id: int, line: EndRow | None) -> None:
        """The history was asked for a dead letter. Somebody may have retried it meanwhile."""
        job = self._scheduler.find(job_id) or self._scheduler.unwritten(job_id)
        if job is not None:
            self._retry(number, job)
        elif line is not None:
            self._confirm_retry(number, self._scheduler.retry_recorded(line))
        else:
            raise Refusal(UNKNOWN_JOB, f"job {job_id} is not a dead letter that is kept")

    def _confirm_retry(self, number: int, job: Job) -> None:
        """Answer when the retry is on disk. If the job itself never was, and the store fails, it is refused."""
        if number:
            self._session.acknowledge_all([job], wire.encode(wire.OK, number, None))

    def _confirm(self, number: int, *, durable: bool) -> None:
        """Answer at once, or when the change of a durable job is on disk."""
        if not number:
            return
        answer = wire.encode(wire.OK, number, None)
        if durable:
            self._session.pledge(answer)
        else:
            self._session.send(answer)

    def _tell_unrecorded(self, number: int, job_id: int, level: int) -> None:
        """The history does not know the job."""
        job = self._scheduler.jobs.get(job_id)
        if job is not None and level:
            # A dead letter that was retried while the history was asked.
            self._session.watch_live(number, job, level)
        elif job is not None:
            self._session.answer(number, describing.live_job(self._scheduler, job))
        elif self._scheduler.issued(job_id):
            raise Refusal(wire.NOT_KEPT, f"job {job_id} has ended, and nothing of it is kept")
        else:
            raise Refusal(UNKNOWN_JOB, f"no job has the id {job_id}, or the history no longer has it")

    def _send_end(self, number: int, job_id: int, described: describing.Described, level: int) -> None:
        told = self._told_end(number, job_id, described, level)
        if told:
            self._session.send(told)

    def _told_end(self, number: int, job_id: int, described: describing.Described, level: int) -> bytes:
        """The answer to a request for an ended job; for a watcher, `ended` follows."""
        told = wire.encode(wire.OK, number, described) if number else b""
        if level:
            state, code, result = described["state"], described["code"], described["result"]
            body = describing.end_body(job_id, state, code, result, "truncated" in described)
            told += wire.encode(wire.ENDED, 0, body)
        return told
