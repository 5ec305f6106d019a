"""What all sessions of one PING/PONG door share: its options, and the terms of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler


DOUBTS_MAX: Final = 10_000

Sent = tuple[int, int]
"""A job that was sent to a worker: its id, and when."""
NOTHING_KNOWN: Final[Sent] = (0, 0)
"""A job that the hall does not know any more, or that the worker may have but need not."""


@dataclass(frozen=True)
class PingPongOptions:
    """How one door, with its backend and its frontend, treats what comes in by it."""

    queue: bytes = b"pingpong"
    """The protocol has no word for kinds of work: all jobs and workers of a door meet in this one."""
    expire_us: int = 5_000_000
    """WORKER_EXPIRE_SECONDS: silence after which a worker without a job is sent none."""
    job_timeout_us: int = 60_000_000
    """Silence of a worker that has a job after which the job is sent again."""
    losses_max: int = 3
    quits_max: int = 0
    """Hired workers that may quit a job after they have begun; 0: any number."""
    durable: bool = False
    """Jobs of the frontend are kept on disk, and are done even if their client and the hall go away."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""


class PingPongContext:
    """One door."""

    def __init__(self, scheduler: Scheduler, options: PingPongOptions) -> None:
        if not options.queue:
            raise ValueError("a door's queue has a name")
        if options.expire_us <= 0 or options.job_timeout_us <= 0:
            raise ValueError("a worker's and a job's timeout are longer than nothing")
        self.scheduler = scheduler
        self.options = options
        self._opened_us = scheduler.awake_us
        self._doubts: dict[bytes, Sent] = {}
        """Identities that were sent a job and were forgotten before they answered, with that job; the oldest
        goes first."""
        self.terms = Terms(
            durable=options.durable,
            detached=options.durable,
            losses_max=options.losses_max,
            quits_max=options.quits_max,
            lease_us=options.job_timeout_us,
            logged=options.log_all,
        )

    def doubt(self, identity: bytes, sent: Sent) -> None:
        """If it comes back, it may come back with the job that it was sent."""
        self._doubts[identity] = sent
        if len(self._doubts) > DOUBTS_MAX:
            del self._doubts[next(iter(self._doubts))]

    def recall(self, identity: bytes) -> Sent | None:
        """What one who is new here may still have: the hall has met it, or was open before, not long ago.
        None: it has nothing.
        """
        sent = self._doubts.pop(identity, None)
        young = self.scheduler.awake_us < self._opened_us + self.options.job_timeout_us
        return NOTHING_KNOWN if sent is None and young and self.scheduler.epoch > 1 else sent
