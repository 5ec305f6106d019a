"""Which live jobs a list or a count is about: the filters of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, TOO_LARGE, Refusal
from hiringhall.core.reasons import SITUATIONS, situation
from hiringhall.core.states import DELAYED, DONE, HELD, LEASED, QUEUED, STATE_NAMES

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.fields import Fields

NUMBER_MAX: Final = (1 << 63) - 1
TEXT_BYTES_MAX: Final = 1024
"""The longest text that is searched for."""
TEXT_LOOKED_BYTES: Final = 4096
"""The part of a payload in which a text is searched."""
TEXT_COST: Final = 16
"""A job that is searched for a text costs as much as so many others."""
LIVE_SITUATIONS: Final = SITUATIONS[: SITUATIONS.index("done")]
_STATES: Final = {
    "held": HELD,
    "delayed": DELAYED,
    "backoff": DELAYED,
    "paused": QUEUED,
    "parked": QUEUED,
    "limited": QUEUED,
    "announced": QUEUED,
    "no_workers": QUEUED,
    "ready": QUEUED,
    "promised": LEASED,
    "running": LEASED,
}
"""The state of a job in each situation."""


class JobFilter:
    """The filters of one request about live jobs. Each may be left out."""

    __slots__ = ("_from_us", "_to_us", "key", "queue", "situation", "state", "text", "worker")

    def __init__(self, fields: Fields) -> None:
        self.queue = fields.data("queue")
        state = fields.word("state", STATE_NAMES[:DONE])
        self.state = STATE_NAMES.index(state) if state is not None else -1
        """-1: all states."""
        self.situation = fields.word("situation", LIVE_SITUATIONS)
        if self.situation is not None and self.state < 0:
            self.state = _STATES[self.situation]
        self.key = fields.data("key")
        text = fields.data("text")
        if text is not None and len(text) > TEXT_BYTES_MAX:
            raise Refusal(TOO_LARGE, f"text: may have {TEXT_BYTES_MAX} bytes")
        self.text = text.lower() if text else None
        self._from_us = fields.number("from_us", 0, NUMBER_MAX)
        self._to_us = fields.number("to_us", 0, NUMBER_MAX)
        if self._from_us is not None and self._to_us is not None and self._from_us > self._to_us:
            raise Refusal(BAD_REQUEST, "from_us: is later than to_us")
        self.worker = fields.number("worker", 0, NUMBER_MAX)
        """The number of the worker that has the job."""

    def matches(self, scheduler: Scheduler, job: Job) -> bool:
        """Whether a job is meant. The cheap questions come first."""
        return (
            (self.state < 0 or job.state == self.state)
            and (self.queue is None or job.queue.name == self.queue)
            and (self.key is None or job.key == self.key)
            and (self._from_us is None or job.created_us >= self._from_us)
            and (self._to_us is None or job.created_us <= self._to_us)
            and (self.worker is None or (job.lease is not None and job.lease.worker.number == self.worker))
            and (self.situation is None or situation(scheduler, job) == self.situation)
            and (self.text is None or self._has_text(self.text, job))
        )

    def _has_text(self, text: bytes, job: Job) -> bool:
        return text in job.key.lower() or text in job.payload[:TEXT_LOOKED_BYTES].lower()

    def may_be_in(self, queue: Queue) -> bool:
        """Whether a job of this queue may be meant, as far as the queue tells it."""
        situation = self.situation
        if not _counted(queue, self.state):
            return False
        if situation is None or self.state != QUEUED or situation == "announced":
            return True
        if queue.paused_us or situation == "paused":
            return bool(queue.paused_us) == (situation == "paused")
        if queue.limiter is not None or situation in ("parked", "limited"):
            return queue.limiter is not None
        return bool(queue.workers) == (situation == "ready")

    def known_count(self, scheduler: Scheduler) -> int | None:
        """How many jobs match, if it is counted anyway; None: the jobs have to be looked at."""
        others = (self.situation, self.key, self.text, self._from_us, self._to_us, self.worker)
        if any(value is not None for value in others):
            return None
        if self.queue is not None:
            queue = scheduler.queues.get(self.queue)
            return _counted(queue, self.state) if queue is not None else 0
        if self.state < 0:
            return len(scheduler.jobs)
        return sum([_counted(queue, self.state) for queue in scheduler.queues.values()])


def _counted(queue: Queue, state: int) -> int:
    """The live jobs of a queue in a state, or in all."""
    if state == HELD:
        return queue.held
    if state == DELAYED:
        return queue.delayed
    if state == QUEUED:
        return queue.ready + queue.parked
    return queue.leased if state == LEASED else queue.live
