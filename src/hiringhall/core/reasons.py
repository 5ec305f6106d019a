"""Why a job is not being done, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DELAYED, HELD, QUEUED, STATE_NAMES
from hiringhall.core.terms import PLAIN

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Auction
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker


def why(scheduler: Scheduler, job: Job) -> str:
    """What stands between a job and its worker."""
    if job.state == HELD:
        return f"it waits for {_counted(len(job.parents or {}), 'other job')}"
    if job.state == DELAYED:
        return f"it is due in {-(-(job.due_us - hall.now_us) // SECOND_US)} s"
    if job.state != QUEUED:
        return f"it is {STATE_NAMES[job.state]}"
    queue = job.queue
    auction = scheduler.auctions.by_job.get(job.id)
    if not queue.workers:
        return _announced(auction) if auction is not None else "no worker is here for its queue"
    if auction is not None and auction.bids:
        return _announced(auction)
    if all(worker.until_us and worker.until_us <= scheduler.now_us for worker in queue.workers):
        return f"the time of its {len(queue.workers)} workers is up"
    skill, takes_us = job.terms.shape or PLAIN
    skilled = [worker for worker in queue.workers if worker.skill(queue.name) >= skill]
    if not skilled:
        return f"it needs skill {skill}, which none of {len(queue.workers)} workers has"
    able = [worker for worker in skilled if worker.fits(queue.name, (skill, takes_us), scheduler.now_us)]
    if not able:
        return f"it takes {takes_us // SECOND_US} s, and none of {len(skilled)} workers has that long left"
    return _unclaimed(able, queue, auction)


def _unclaimed(able: list[Worker], queue: Queue, auction: Auction | None) -> str:
    """Why none of those who can do it has it."""
    free = [worker for worker in able if not worker.leases and worker.promise is None]
    if not free:
        return "its turn has not come: the workers are at work"
    if any(worker.waking is queue for worker in free):
        return "a worker was woken for it, and has not asked for it yet"
    if auction is not None and all(worker.bids for worker in free):
        return _announced(auction)
    return f"{_counted(len(free), 'free worker')} can do it, and none has asked for it"


def _announced(auction: Auction) -> str:
    """What became of its announcement."""
    if auction.bids:
        return f"it is announced, and {_counted(len(auction.bids), 'worker')} bid for it"
    if auction.skill_bid >= 0:
        needed = auction.job.terms.skill
        return (
            f"it is announced; it needs skill {needed}, and the best bid for it had skill {auction.skill_bid}"
        )
    if auction.lacked_time:
        return "it is announced; those who bid for it come too late, or have not the time for it"
    return "it is announced, and nobody has bid for it"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
