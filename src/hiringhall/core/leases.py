"""A lease: one job, with one worker. An engagement is a lease on the next place of a worker that was hired.

The law: a job has a lease exactly while it is LEASED, and only that lease can report on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.timers import NEVER, Timed

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Rules
    from hiringhall.core.peer import Peer
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

HIRED: Final = 0
"""The worker is to come: its next place is taken."""
ARRIVED: Final = 1
"""It said START, and waits to be told to perform."""
CALLED: Final = 2
"""It was told to perform, and has not yet said that it does."""
PERFORMING: Final = 3


class Lease(Timed):
    """One attempt: this job, to this worker. Its timer is set while silence or run time can end it."""

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
        """Grows with each lease of this boot."""
        self.job = job
        self.worker = worker
        self.started_us = started_us
        self.run_until_us = run_until_us
        """The attempt has failed at this time; 0: never."""
        self.expected_us = NEVER
        """When its worker expects to be done; 0: it has not said."""
        self.stage = PERFORMING
        """Only an engagement has other stages."""
        self.begin_us = NEVER
        """When the job of an engagement is due: it is not begun earlier."""
        self.provider: Peer | None = None
        """The peer whose job it is, who hired the worker and says when the job is done; None: the hall."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.leases.lease_due(self)

    @property
    def promised(self) -> bool:
        """The worker was hired and has not begun: the job can be given back as if nothing had been."""
        return self.stage != PERFORMING

    @property
    def booked(self) -> bool:
        """The worker does not bid, and has not heard of it: it is given it when it asks for work."""
        return self.stage == HIRED and not self.worker.bids


class Engagement(Lease):
    """A lease on a worker's next place: promised, then begun, then performed. Its timer is the deadline of the
    stage it is in.
    """

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
        """When the worker said that it can begin."""
        self.begin_us = now_us
        self.perform_us = 0
        """How long it takes, as the worker was told."""
        self.provider_silence_us = 0
        """How long a provider whose going cannot be seen may be silent; 0: it can be seen."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.hiring.engagement_due(self)
