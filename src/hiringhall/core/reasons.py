"""How a job stands, as one word, and why it is not running, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.amounts import amount_text, needs_text
from hiringhall.core.limits import SECOND_US
from hiringhall.core.rules.spacing import quiet_us_of
from hiringhall.core.states import DELAYED, GIVEN_BACK, HELD, LEASED, QUEUED, STATE_NAMES
from hiringhall.core.terms import NO_REQUIREMENT

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Auction
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Requirement
    from hiringhall.core.workers import Worker


SITUATIONS: Final = (
    "held",  # waits for other jobs
    "delayed",  # due later, as was asked
    "backoff",  # failed, and is tried again later
    "paused",  # ready, in a paused queue
    "parked",  # ready, and its key has as many running as it may
    "limited",  # ready, and its queue has reached a limit
    "announced",  # ready, and workers may bid for it
    "no_workers",  # ready, and no worker can do its queue
    "ready",
    "promised",  # a worker was hired for it and has not begun
    "running",
    "done",
    "failed",
    "cancelled",
)
"""What a job's situation can be."""


def situation(scheduler: Scheduler, job: Job) -> str:
    """How a job stands: one of SITUATIONS."""
    state = job.state
    if state == LEASED:
        return "promised" if job.lease is not None and job.lease.promised else "running"
    if state == DELAYED:
        return "backoff" if _backs_off(job) else "delayed"
    if state != QUEUED:
        return STATE_NAMES[state]
    queue = job.queue
    if queue.paused_us:
        return "paused"
    if queue.limiter is not None and (held := queue.limiter.holds(job)):
        return held
    auction = scheduler.auctions.by_job.get(job.id)
    if auction is not None and (auction.open or auction.bids or not queue.workers):
        return "announced"
    return "ready" if queue.workers else "no_workers"


def _backs_off(job: Job) -> bool:
    """A delayed job waits after a failure: its latest attempt failed, and was not given back."""
    return job.failures > 0 and job.tries is not None and job.tries[-1][3] != GIVEN_BACK


def why(scheduler: Scheduler, job: Job) -> str:
    """What keeps a job from running."""
    if job.state == HELD:
        return f"it waits for {_counted(len(job.parents or {}), 'other job')}"
    if job.state == DELAYED:
        due_s = max(-(-(job.due_us - scheduler.now_us) // SECOND_US), 0)
        if _backs_off(job):
            most = job.terms.failures_max + 1
            return f"attempt {job.failures} of {most} failed; it is tried again in {due_s} s"
        if quiet_us := quiet_us_of(job):
            quiet = f"{quiet_us / SECOND_US:g} s without another submit of its key"
            return f"it is debounced and waits for {quiet}: it is due in {due_s} s"
        return f"it is due in {due_s} s"
    if job.lease is not None and job.lease.promised:
        return "a worker was hired for it and has not begun"
    if job.state != QUEUED:
        return f"it is {STATE_NAMES[job.state]}"
    queue = job.queue
    if queue.paused_us:
        return "its queue is paused"
    if queue.limiter is not None and (limit := queue.limiter.why(job)):
        return limit
    auction = scheduler.auctions.by_job.get(job.id)
    if not queue.workers:
        return _announced(auction) if auction is not None else "its queue has no workers"
    if auction is not None and auction.bids:
        return _announced(auction)
    if all(worker.draining for worker in queue.workers):
        return f"all {len(queue.workers)} workers of its queue drain: they get no more jobs"
    if not any(worker.has_time(scheduler.now_us) for worker in queue.workers):
        return f"all {len(queue.workers)} workers of its queue have no time left"
    skill, takes_us, _ = job.terms.requirement or NO_REQUIREMENT
    skilled = [worker for worker in queue.workers if worker.skill(queue.name) >= skill]
    if not skilled:
        return f"it needs skill {skill}, which none of {len(queue.workers)} workers has"
    able = [worker for worker in skilled if worker.fits(queue.name, (skill, takes_us, ()), scheduler.now_us)]
    if not able:
        return f"it takes {takes_us // SECOND_US} s, and none of {len(skilled)} workers has that much time left"
    if job.terms.resources and (lack := _lacks_resources(job, able, scheduler.now_us)):
        return lack
    return _unclaimed(able, queue, auction)


def _lacks_resources(job: Job, able: list[Worker], now_us: int) -> str:
    """Why no worker has the resources for it; empty: one has."""
    needs = job.terms.resources
    stated = f"it needs {needs_text(needs).decode()}"
    capacities = [worker.capacity for worker in able if worker.capacity is not None]
    for name, need in needs:
        most = max([capacity.totals.get(name, 0) for capacity in capacities], default=0)
        if most < need:
            has = f"no worker has more than {amount_text(most).decode()}" if most else "no worker has any"
            return f"it needs {needs_text(((name, need),)).decode()}; {has}"
    capacities = [capacity for capacity in capacities if capacity.could_fit(needs)]
    if not capacities:
        return f"{stated}; no worker has all of that"
    reservation = job.queue.reservation
    if reservation is not None and reservation.job is job:
        who = next(iter(reservation.capacity.workers)).name.decode("utf-8", "backslashreplace")
        lacked = "it has an empty slot" if reservation.capacity.fits(needs) else "that much is free"
        return f"{stated}; worker {who} is reserved for it, and gets it as soon as {lacked}"
    if any(capacity.admits(job.queue.name, _requirement(job), now_us) for capacity in capacities):
        return ""
    return f"{stated}; that much is not free on any worker now"


def _requirement(job: Job) -> Requirement:
    return job.terms.requirement or NO_REQUIREMENT


def _unclaimed(able: list[Worker], queue: Queue, auction: Auction | None) -> str:
    """Why none of the workers that can do it has it."""
    free = [worker for worker in able if not worker.leases and worker.promise is None]
    if not free:
        return "all workers that can do it are busy"
    if any(worker.waking is queue for worker in free):
        return "a worker was woken for it and has not asked for it yet"
    if auction is not None and all(worker.bids for worker in free):
        return _announced(auction)
    return f"{_counted(len(free), 'free worker')} could do it, but none has asked for work"


def _announced(auction: Auction) -> str:
    """The state of its auction."""
    if auction.bids:
        return f"it is announced and has bids of {_counted(len(auction.bids), 'worker')}"
    if auction.skill_bid >= 0:
        needed = auction.job.terms.skill
        return (
            f"it is announced; it needs skill {needed}, and the best bid for it had skill {auction.skill_bid}"
        )
    if auction.lacked_time:
        return "it is announced; the workers that bid come too late or have too little time left"
    return "it is announced and has no bids"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
