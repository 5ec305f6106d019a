"""The part of the audit that checks the resources of workers: what is used, and who is kept for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.amounts import ONE
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.states import QUEUED

if TYPE_CHECKING:
    from hiringhall.core.resources.capacity import Capacity
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker


def audit_capacity(scheduler: Scheduler) -> None:
    """Raise BrokenLaw at the first law that does not hold."""
    capacities: dict[Capacity, tuple[Worker, set[int]]] = {}
    for worker in scheduler.workers:
        capacity = worker.capacity
        leases = [lease for lease in worker.leases.values() if lease.job.terms.resources]
        if capacity is None:
            continue
        listed = worker in capacity.workers
        _law(listed or worker.stands_for is not None, worker, "its resources are those of the worker")
        known = capacities.setdefault(capacity, (worker, set()))
        for lease in leases:
            known[1].add(lease.number)
            share = capacity.shares.get(lease.number)
            right = share is not None and share.lease is lease and share.amounts == lease.job.terms.resources
            _law(right, worker, f"job {lease.job.id} has the resources that it needs")
    reserved = 0
    for capacity, (worker, numbers) in capacities.items():
        _audit_capacity(capacity, worker, numbers)
        reserved += capacity.reservation is not None
        for other in capacity.workers:
            _law(
                other in scheduler.workers and other.capacity is capacity, worker, "its connections are present"
            )
    for queue in scheduler.queues.values():
        reservation = queue.reservation
        if reservation is None:
            continue
        reserved -= 1
        job = reservation.job
        waits = job.queue is queue and job.state == QUEUED and scheduler.jobs.get(job.id) is job
        if not waits or queue.paused_us or reservation.capacity.reservation is not reservation:
            raise BrokenLaw(f"job {job.id}: a worker is reserved for it while it waits, and for it alone")
        if reservation.capacity not in capacities or not reservation.capacity.workers:
            raise BrokenLaw(f"job {job.id}: the worker that is reserved for it is present")
    if reserved:
        raise BrokenLaw("every reservation belongs to a queue")


def _audit_capacity(capacity: Capacity, worker: Worker, numbers: set[int]) -> None:
    _law(set(capacity.shares) == numbers, worker, "its resources are used by its jobs, and by no others")
    for name, total in capacity.totals.items():
        used = sum([dict(share.amounts).get(name, 0) for share in capacity.shares.values()])
        _law(
            0 <= capacity.free[name] == total - used,
            worker,
            f"what is free of {name!r} and what is used add up",
        )
        units = capacity.units.get(name)
        if units is None:
            continue
        left = [ONE] * len(capacity.labels[name])
        for share in capacity.shares.values():
            for number, amount in share.units.get(name, {}).items():
                left[number] -= amount
        _law(left == units and min(left, default=0) >= 0, worker, f"no unit of {name!r} is used twice")


def _law(holds: bool, worker: Worker, law: str) -> None:
    if not holds:
        name = worker.name.decode("utf-8", "backslashreplace")
        raise BrokenLaw(f"worker {worker.number} {name!r}: {law}")
