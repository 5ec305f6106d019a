"""What all sessions of one PING/PONG door share: its options, the terms of its jobs, and unanswered jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import Terms
from hiringhall.dialects.collecting import Collection

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler


UNANSWERED_MAX: Final = 10_000

Sent = tuple[int, int]
"""A job that was sent to a worker: its id, and when."""
UNKNOWN_JOB: Final[Sent] = (0, 0)
"""The worker may have a job, but the hall does not know which."""


@dataclass(frozen=True)
class PingPongOptions:
    """The settings of one PING/PONG door, with its backend and its frontend."""

    queue: bytes = b"pingpong"
    """The queue of all jobs and workers of the door: the protocol has no kinds of work."""
    expire_us: int = 5_000_000
    """WORKER_EXPIRE_SECONDS: a worker without a job that is silent for this long is sent no job."""
    job_timeout_us: int = 60_000_000
    """If a worker with a job is silent for this long, its job is sent to another worker."""
    losses_max: int = 3
    quits_max: int = 0
    """After this many hired workers have quit a job that they had begun, it has failed; 0: never."""
    durable: bool = False
    """Jobs of the frontend are stored on disk; they are done even if the client leaves or the hall restarts."""
    log_all: bool = False
    """Whether the end of every job goes to the history, not only that of durable ones."""


class PingPongContext:
    """One for each door; its backend and its frontend share it."""

    def __init__(self, scheduler: Scheduler, options: PingPongOptions) -> None:
        if not options.queue:
            raise ValueError("the name of the queue must not be empty")
        if options.expire_us <= 0 or options.job_timeout_us <= 0:
            raise ValueError("expire_us and job_timeout_us must be above 0")
        self.scheduler = scheduler
        self.options = options
        self.ahead = Collection()
        """What workers of other dialects send ahead of the results that clients wait for."""
        self._opened_us = scheduler.awake_us
        self._unanswered: dict[bytes, Sent] = {}
        """Identities whose session ended before they answered for a job, with that job, the oldest first."""
        self.terms = Terms(
            durable=options.durable,
            detached=options.durable,
            losses_max=options.losses_max,
            quits_max=options.quits_max,
            lease_us=options.job_timeout_us,
            logged=options.log_all,
        )

    def remember_unanswered(self, identity: bytes, sent: Sent) -> None:
        """The session of a worker has ended, and the worker may still have the job that it was sent."""
        self._unanswered[identity] = sent
        if len(self._unanswered) > UNANSWERED_MAX:
            del self._unanswered[next(iter(self._unanswered))]

    def take_unanswered(self, identity: bytes) -> Sent | None:
        """The job that a worker with a new session may still have; None: it has none. After a restart of the
        hall it may have one from before.
        """
        sent = self._unanswered.pop(identity, None)
        restarted = self.scheduler.epoch > 1
        young = self.scheduler.awake_us < self._opened_us + self.options.job_timeout_us
        return UNKNOWN_JOB if sent is None and young and restarted else sent
