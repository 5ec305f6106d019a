"""Leases: one job with one worker. An engagement is the lease of a hired worker.

Invariant: a job has a lease exactly while it is LEASED, and only that lease can report on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.timers import NEVER, Timed

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

HIRED: Final = 0
"""The worker is expected to come."""
ARRIVED: Final = 1
"""It said START, and waits to be told to perform."""
CALLED: Final = 2
"""It was told to perform, and has not confirmed it yet."""
PERFORMING: Final = 3


# Most workers that end a job take another: compiled, the memory of the latest lease is used again.
@mypyc_attr(free_list_len=1)
class Lease(Timed):
    """One attempt at a job by one worker. Its timer is set while silence or run time can end it."""

    __slots__ = (
        "begin_us",
        "expected_us",
        "job",
        "number",
        "provider",
        "run_until_us",
        "stage",
        "started_us",
        "worker",
    )

    def __init__(self, number: int, job: Job, worker: Worker, started_us: int, run_until_us: int) -> None:
        super().__init__()
        self.number = number
        """Grows with each lease since the hall started."""
        self.job = job
        self.worker = worker
        self.started_us = started_us
        self.run_until_us = run_until_us
        """The attempt fails at this time; 0: never."""
        self.expected_us = NEVER
        """When its worker expects to be done; 0: not stated."""
        self.stage = PERFORMING
        """Only an engagement has other stages."""
        self.begin_us = NEVER
        """When the job of an engagement is due: it does not begin earlier."""
        self.provider: Peer | None = None
        """The peer that hired the worker for its own job and decides when it is done; None: the hall."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.leases.lease_due(self)

    @property
    def promised(self) -> bool:
        """The worker was hired and has not begun: the job can be given back without a trace."""
        return self.stage != PERFORMING

    @property
    def booked(self) -> bool:
        """The worker does not bid and was not told: it receives the job when it asks for work."""
        return self.stage == HIRED and not self.worker.bids


class Engagement(Lease):
    """The lease of a hired worker: promised first, begun later. Its timer is the deadline of its stage."""

    __slots__ = (
        "perform_us",
        "promised_us",
        "provider_silence_us",
        "rules",
    )

    def __init__(self, number: int, job: Job, worker: Worker, now_us: int, offer_us: int, rules: Rules) -> None:
        super().__init__(number, job, worker, now_us, 0)
        self.stage = HIRED
        self.rules = rules
        self.promised_us = offer_us
        """When the worker promised to begin."""
        self.begin_us = now_us
        self.perform_us = 0
        """How long the worker was told to perform."""
        self.provider_silence_us = 0
        """Allowed silence of a provider whose disconnect cannot be seen; 0: it can be seen."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.hiring.engagement_due(self)
