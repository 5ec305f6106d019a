"""What all sessions of one PING/PONG door share: its options, and the terms of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import Terms

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler


DOUBTS_MAX: Final = 10_000


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


class PingPongDoor:
    """One door."""

    def __init__(self, hall: Scheduler, options: PingPongOptions) -> None:
        if not options.queue:
            raise ValueError("a door's queue has a name")
        if options.expire_us <= 0 or options.job_timeout_us <= 0:
            raise ValueError("a worker's and a job's timeout are longer than nothing")
        self.hall = hall
        self.options = options
        self._opened_us = hall.awake_us
        self._doubts: dict[bytes, None] = {}
        """Identities that were sent a job and were forgotten before they answered; the oldest goes first."""
        self.terms = Terms(
            durable=options.durable,
            detached=options.durable,
            losses_max=options.losses_max,
            quits_max=options.quits_max,
            lease_us=options.job_timeout_us,
            logged=options.log_all,
        )

    def doubt(self, identity: bytes) -> None:
        """If it comes back, it may come back with a job of which nobody knows any more."""
        self._doubts[identity] = None
        if len(self._doubts) > DOUBTS_MAX:
            del self._doubts[next(iter(self._doubts))]

    def is_doubtful(self, identity: bytes) -> bool:
        """Whether one who is new here may have a job: the hall was open before, not long ago, or has met it."""
        if identity in self._doubts:
            del self._doubts[identity]
            return True
        return self.hall.epoch > 1 and self.hall.awake_us < self._opened_us + self.options.job_timeout_us
