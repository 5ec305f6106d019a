"""The part of the audit that checks queues with rules: what they count, and who is parked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.rules.limiter import limit_key_of, tenant_of
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import NO_REQUIREMENT, PRIORITIES

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.rules.limiter import Limiter
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Requirement


def audit_rules(scheduler: Scheduler) -> None:
    """Raise BrokenLaw at the first law that does not hold."""
    ruled = scheduler.ruled_queues.queues
    for name, queue in scheduler.queues.items():
        limiter = queue.limiter
        _law((ruled.get(name) is queue) == (limiter is not None), queue, "it is listed while it has rules")
        _law(not queue.paused_us or queue.closed, queue, "it is closed while it is paused")
        if limiter is None:
            _law(queue.closed == (queue.paused_us > 0), queue, "without rules it is closed only by a pause")
    if not ruled:
        return
    jobs: dict[bytes, list[Job]] = {name: [] for name in ruled}
    for job in scheduler.jobs.values():
        if job.queue.name in jobs:
            jobs[job.queue.name].append(job)
    for name, queue in ruled.items():
        _law(scheduler.queues.get(name) is queue and queue.limiter is not None, queue, "a ruled queue exists")
        if queue.limiter is not None:
            _audit_limiter(queue, queue.limiter, jobs[name])


def _audit_limiter(queue: Queue, limiter: Limiter, jobs: list[Job]) -> None:
    _law(limiter.running == queue.leased, queue, "its limiter counts its running jobs")
    _law(queue.closed or not limiter.full, queue, "it is closed while a limit is reached")
    tokens_due = queue.paused_us > 0 or not queue.closed or limiter.is_awaited
    _law(tokens_due, queue, "a closed queue waits for the end of a pause, of a job, or for a token")
    ready = [job for job in jobs if job.state == QUEUED]
    if not limiter.orders:
        _law(not limiter.entries and not queue.parked, queue, "it parks jobs only by key")
        return
    _law(len(limiter.entries) == len(ready), queue, "its limiter has all ready jobs, and no others")
    parked = [0] * PRIORITIES
    tenants: list[dict[bytes, int]] = [{} for _ in range(PRIORITIES)]
    for job in ready:
        entry = limiter.entries.get(job.id)
        known = entry is not None and entry.job is job and not entry.gone and entry.parked != job.in_lane
        _law(known, queue, f"its limiter knows whether job {job.id} is in a lane or parked")
        parked[job.terms.priority] += not job.in_lane
        if limiter.rules.fair:
            waiting = tenants[job.terms.priority]
            waiting[tenant_of(job)] = waiting.get(tenant_of(job), 0) + 1
    _law(parked == limiter.parked, queue, "its limiter counts the parked jobs of each priority")
    _law(tenants == limiter.waiting_by_tenant(), queue, "it counts the waiting jobs of each tenant")
    _audit_keys(queue, limiter, jobs)


def _audit_keys(queue: Queue, limiter: Limiter, jobs: list[Job]) -> None:
    """Of each key, as many jobs are in the lanes as may start, and the others are parked."""
    parking = limiter.parking
    if parking is None:
        _law(not queue.parked, queue, "nothing is parked without a limit by key")
        return
    running: dict[bytes, int] = {}
    admitted: dict[tuple[bytes, Requirement], int] = {}
    parked: dict[tuple[bytes, Requirement], int] = {}
    for job in jobs:
        name = limit_key_of(job)
        if job.state == LEASED and name:
            running[name] = running.get(name, 0) + 1
        elif job.state == QUEUED:
            group = (name, job.terms.requirement or NO_REQUIREMENT)
            counts = admitted if job.in_lane else parked
            counts[group] = counts.get(group, 0) + 1
            _law(job.in_lane or bool(name), queue, f"job {job.id} is parked by its key")
    for name, count in running.items():
        key = parking.keys.get(name)
        _law(key is not None and key.running == count, queue, f"it counts the running jobs of key {name!r}")
    for name, key in parking.keys.items():
        used = key.running > 0 or any(
            (name, group) in admitted or (name, group) in parked for group in key.groups
        )
        _law(used, queue, f"it forgets key {name!r} when no job has it")
        _law(key.running == running.get(name, 0), queue, f"it counts the running jobs of key {name!r}")
        room = max(parking.most - key.running, 0)
        for requirement in key.groups:
            in_lanes = admitted.get((name, requirement), 0)
            held_back = parked.get((name, requirement), 0)
            _law(in_lanes == min(room, in_lanes + held_back), queue, f"key {name!r} fills the room that it has")


def _law(holds: bool, queue: Queue, law: str) -> None:
    if not holds:
        raise BrokenLaw(f"queue {queue.name.decode('utf-8', 'backslashreplace')!r}: {law}")
