"""The part of the audit that checks the resources of workers: what is used, and who is kept for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.amounts import ONE
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.states import QUEUED

if TYPE_CHECKING:
    from hiringhall.core.rooms import Room
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker


def audit_rooms(scheduler: Scheduler) -> None:
    """Raise BrokenLaw at the first law that does not hold."""
    rooms: dict[Room, tuple[Worker, set[int]]] = {}
    for worker in scheduler.workers:
        room = worker.room
        leases = [lease for lease in worker.leases.values() if lease.job.terms.resources]
        if room is None:
            continue
        listed = worker in room.workers
        _law(listed or worker.stands_for is not None, worker, "its resources are those of the worker")
        known = rooms.setdefault(room, (worker, set()))
        for lease in leases:
            known[1].add(lease.number)
            share = room.shares.get(lease.number)
            right = share is not None and share.lease is lease and share.amounts == lease.job.terms.resources
            _law(right, worker, f"job {lease.job.id} has the resources that it needs")
    reserved = 0
    for room, (worker, numbers) in rooms.items():
        _audit_room(room, worker, numbers)
        reserved += room.reservation is not None
        for other in room.workers:
            _law(other in scheduler.workers and other.room is room, worker, "its connections are present")
    for queue in scheduler.queues.values():
        reservation = queue.reservation
        if reservation is None:
            continue
        reserved -= 1
        job = reservation.job
        waits = job.queue is queue and job.state == QUEUED and scheduler.jobs.get(job.id) is job
        if not waits or queue.paused_us or reservation.room.reservation is not reservation:
            raise BrokenLaw(f"job {job.id}: a worker is reserved for it while it waits, and for it alone")
        if reservation.room not in rooms or not reservation.room.workers:
            raise BrokenLaw(f"job {job.id}: the worker that is reserved for it is present")
    if reserved:
        raise BrokenLaw("every reservation belongs to a queue")


def _audit_room(room: Room, worker: Worker, numbers: set[int]) -> None:
    _law(set(room.shares) == numbers, worker, "its resources are used by its jobs, and by no others")
    for name, total in room.totals.items():
        used = sum([dict(share.amounts).get(name, 0) for share in room.shares.values()])
        _law(0 <= room.free[name] == total - used, worker, f"what is free of {name!r} and what is used add up")
        units = room.units.get(name)
        if units is None:
            continue
        left = [ONE] * len(room.labels[name])
        for share in room.shares.values():
            for number, amount in share.units.get(name, {}).items():
                left[number] -= amount
        _law(left == units and min(left, default=0) >= 0, worker, f"no unit of {name!r} is used twice")


def _law(holds: bool, worker: Worker, law: str) -> None:
    if not holds:
        name = worker.name.decode("utf-8", "backslashreplace")
        raise BrokenLaw(f"worker {worker.number} {name!r}: {law}")
