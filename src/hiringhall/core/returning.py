"""Workers that come back after a silence: without the job they had, or late with its result.

The law: as long as a job has not ended, the first report of a worker that was given it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.leasing import Leasing
from hiringhall.core.states import CUT_SHORT, DELAYED, LEASED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker


class Returning(Leasing):
    """The verbs for dialects in which a worker is silent while it works."""

    def lose(self, lease: Lease) -> None:
        """The worker has come back without the job: a loss, as if it had gone."""
        self._check_live(lease)
        self._lose(lease)

    def reclaim(self, worker: Worker, job: Job, started_us: int) -> Lease:
        """A worker reports on a job that was taken from it because it was silent: it holds the job again.

        Any other worker that has begun with the job meanwhile is told to stop. Refused if the job has ended, or
        waits for parents.
        """
        if job.lease is not None:
            self._revoke(job.lease)
            self._give_back(job.lease, CUT_SHORT)
        if job.state not in (QUEUED, DELAYED):
            raise self._stale()
        self.move(job, LEASED)
        job.worker_name = worker.name
        job.started_us = started_us
        if job.tries is not None:
            # The attempt goes on.
            kept = [attempt for attempt in job.tries if (attempt[0], attempt[2]) != (started_us, worker.name)]
            job.tries = kept or None
        lease = self._attach_lease(job, worker, 0)
        lease.started_us = started_us
        return lease
