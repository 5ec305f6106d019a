"""Why a job is not being done, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import DELAYED, HELD, PLAIN, QUEUED, STATE_NAMES
from hiringhall.core.limits import SECOND_US

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.scheduler import Scheduler


def why(hall: Scheduler, job: Job) -> str:
    """What stands between a job and its worker."""
    if job.state == HELD:
        parents = len(job.parents or {})
        return f"it waits for {parents} other job{'s' if parents != 1 else ''}"
    if job.state == DELAYED:
        return f"it is due in {-(-(job.due_us - hall.now_us) // SECOND_US)} s"
    if job.state != QUEUED:
        return f"it is {STATE_NAMES[job.state]}"
    queue = job.queue
    if job.id in hall.auctions and not queue.workers:
        return "it is announced, and nobody has bid for it"
    if not queue.workers:
        return "no worker is here for its queue"
    if all(worker.until_us and worker.until_us <= hall.now_us for worker in queue.workers):
        return f"the time of its {len(queue.workers)} workers is up"
    skill, takes_us = job.terms.shape or PLAIN
    skilled = [worker for worker in queue.workers if worker.skill(queue.name) >= skill]
    if not skilled:
        return f"it needs skill {skill}, which none of {len(queue.workers)} workers has"
    if not any(worker.fits(queue.name, (skill, takes_us), hall.now_us) for worker in skilled):
        return f"it takes {takes_us // SECOND_US} s, and none of {len(skilled)} workers has that long left"
    return "its turn has not come: the workers are at work"
