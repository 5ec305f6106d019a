"""What must hold at the end of each turn: the hall's inside, counted against what was seen outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import PROVIDER
from hiringhall.core.states import DELAYED, HELD, QUEUED
from hiringhall.engine.deadlines import GROUP_COMMIT_US, NEVER
from hiringhall.engine.turn import HELD_MESSAGES_MAX

from . import handlaws, wakelaws
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler

    from .hall import Hall
    from .laws import Laws
    from .sights import Sight
    from .taps import Tap


def check(laws: Laws, hall: Hall) -> None:
    scheduler = hall.scheduler
    _one_place(scheduler)
    _bounds(hall)
    if laws.limits is not None:
        laws.limits.check(hall)
    if laws.spacing is not None:
        laws.spacing.check(hall)
    if laws.resources is not None:
        laws.resources.check(hall)
    _commit_in_time(hall)
    _holders(laws, scheduler)
    _sleepers(laws, hall)
    wakelaws.check(laws, hall)
    handlaws.check(laws, hall)
    if laws.options.expire_us:
        _expired(laws, hall)
    if laws.assigned_now and not laws.disturbed:
        for sight in laws.assigned_now:
            _in_order(laws, sight, scheduler)
    if not hall.engine.busy and not scheduler.store_trouble:
        laws.mirror.agrees_with_hall(scheduler)


def _one_place(scheduler: Scheduler) -> None:
    """Each job stands in one lane, or is with one worker, or waits for a time or a parent."""
    places = 0
    for queue in scheduler.queues.values():
        for lanes in queue.all_lanes().values():
            places += sum(len(lane.waiting()) for lane in lanes)
        places += len(queue.parked_jobs())
    for worker in scheduler.workers:
        places += len(worker.leases) + (worker.promise is not None)
    for job in scheduler.jobs.values():
        places += job.state in (HELD, DELAYED)
    if places != len(scheduler.jobs):
        raise Violation("one place", f"{len(scheduler.jobs)} jobs stand in {places} places")


def _bounds(hall: Hall) -> None:
    scheduler = hall.scheduler
    limits = hall.limits
    submitted = [job for job in scheduler.jobs.values() if not job.extras or PROVIDER not in job.extras]
    if len(submitted) > limits.jobs_max or len(scheduler.archive) > limits.ended_max:
        raise Violation(
            "bounds", f"{len(scheduler.jobs)} jobs and {len(scheduler.archive)} ended ones are kept"
        )
    if len(scheduler.queues) > max(limits.queues_max, hall.restored_queues):
        raise Violation("bounds", f"there are {len(scheduler.queues)} queues")
    for connection in hall.connections.values():
        session = connection.session
        if len(session.out) + len(session.sealed or ()) > 2 * HELD_MESSAGES_MAX:
            raise Violation("bounds", f"c{connection.number} has too much waiting for it")
    for router in hall.routers.values():
        if len(router.links) > router.peers_max:
            raise Violation("bounds", f"{router.name} has {len(router.links)} sessions")


def _commit_in_time(hall: Hall) -> None:
    """A commit that peers wait for is held back for a moment only, whatever becomes of their jobs."""
    until_us = hall.engine.deadlines.group_us
    if until_us != NEVER and until_us > hall.scheduler.now_us + GROUP_COMMIT_US:
        raise Violation("commit in time", f"a commit waits for {until_us - hall.scheduler.now_us} us")


def _holders(laws: Laws, scheduler: Scheduler) -> None:
    """Who was told that it has a job, has it; who has let its time pass, has it no more."""
    for sight in laws.sights.values():
        holding = sight.holding
        job = scheduler.jobs.get(sight.id)
        lease = job.lease if job is not None else None
        if holding is not None and not holding.doubtful:
            if lease is None or not holding.tap.has(lease):
                raise Violation("lease", f"c{holding.tap.number} was told that it has {sight.id} and has not")
        elif lease is not None and holding is not None:
            late = 0 < holding.until_us < laws.now_us
            if late and lease.started_us == holding.since_us:
                raise Violation("bound", f"c{holding.tap.number} still has {sight.id} after its time")
        elif lease is not None and sight.ended_order:
            raise Violation("one end", f"job {sight.id} has ended and is with a worker")
        elif lease is not None and lease.started_us < sight.returned_us:
            raise Violation("given back", f"job {sight.id} was given back and is still with a worker")


def _sleepers(laws: Laws, hall: Hall) -> None:
    """Where a job is ready, somebody who can do it is being woken before anybody sleeps on."""
    if laws.undelivered or not any(tap.asleep for tap in laws.taps.values()):
        return  # who was woken has not heard it, and is disconnected in the next turn; or nobody sleeps
    for name, queue in hall.scheduler.queues.items():
        if name in laws.pauses.asked_us or not any(lane.waiting() for lane in queue.lanes):
            continue
        able = [tap for tap in laws.taps.values() if name in tap.abilities and _taken_on(tap, queue)]
        woken = [
            tap for tap in able if tap.stands_for_a_job(hall.limits.wake_us) and not laws.drains.surely(tap)
        ]
        sleepers = [tap for tap in able if tap.asleep and not laws.drains.perhaps(tap)]
        if sleepers and not woken:
            raise Violation("wake", f"c{sleepers[0].number} sleeps beside a ready job of {name!r}")


def _expired(laws: Laws, hall: Hall) -> None:
    """What nobody took in its time is gone."""
    for job in hall.scheduler.jobs.values():
        since_us = max(job.created_us, hall.opened_us)
        waits = job.state == QUEUED and not job.attempts and job.terms.expire_us and _waited(laws, job)
        if waits and since_us + job.terms.expire_us <= laws.now_us:
            raise Violation("expiry", f"job {job.id} waits for a worker beyond its time")


def _taken_on(tap: Tap, queue: Queue) -> bool:
    """The hall had room for the queue when the worker named it."""
    return tap.session.worker in queue.workers


def _in_order(laws: Laws, sight: Sight, scheduler: Scheduler) -> None:
    """No job that came later, or is less urgent, goes before one that was ready all the time."""
    submit = sight.submit
    assert submit is not None
    taken = scheduler.jobs.get(sight.id)
    again = taken is None or taken.attempts > 1 or sight.assignments > 1 or sight.retried or sight.hired
    limited = laws.limits is not None and laws.limits.queue == submit.queue
    grid = laws.resources is not None and laws.resources.queue == submit.queue
    if again or limited or grid or not submit.plain:
        return
    for job in scheduler.jobs.values():
        if job.state != QUEUED or job.queue.name != submit.queue:
            continue
        if _waited(laws, job) and (job.terms.priority, job.id) < (submit.priority, sight.id):
            raise Violation("order", f"job {sight.id} went before {job.id}")
        if _returned(laws, job) and job.terms.priority <= submit.priority:
            raise Violation("front", f"job {sight.id} went before {job.id}, which had come back")


def _waited(laws: Laws, job: Job) -> bool:
    """The job was ready before this turn, and never anywhere else."""
    sight = laws.sights.get(job.id)
    return (
        sight is not None
        and sight.acknowledged
        and sight.submit is not None
        and sight.submit.plain
        and not sight.retried
        and not sight.tangled
        and not sight.hired
        and not sight.assignments
        and not job.attempts
        and job.created_us < laws.now_us
    )


def _returned(laws: Laws, job: Job) -> bool:
    """The job came back from a worker before this turn, and nobody has had it since: what is said to its next
    worker may wait for the disk, and that attempt may be over before it is sent.
    """
    sight = laws.sights.get(job.id)
    if sight is None or sight.retried or sight.tangled or sight.hired or sight.declined:
        return False
    return 0 < sight.returned_us < laws.now_us and job.attempts == sight.returned_attempts
