"""What must hold for those who say more of their jobs than that they are done or failed: they renew them, give
them back for later, lose them; and for those who wait for a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue

    from .hall import Hall
    from .laws import Laws
    from .sights import Holding, Sight
    from .taps import Holder, Tap


def renewed(laws: Laws, holder: Holder, job_id: int) -> None:
    """Its run limit begins anew, unless it had run out."""
    sight = laws.sights.get(job_id)
    holding = sight.holding if sight is not None else None
    if holding is not None and holding.tap is holder and not holding.until_us:
        holding.run_from_us = laws.now_us


def released(laws: Laws, holder: Holder, job_id: int, *, front: bool = True, delay_us: int = 0) -> None:
    """It is given back: to the front of its queue, to the end, or for later."""
    sight = laws.sights.get(job_id)
    holding = sight.holding if sight is not None else None
    ours = holding is not None and holding.tap is holder
    certain = holding is not None and not holding.doubtful
    laws.released(holder, job_id)
    if sight is None or not ours or (front and not delay_us):
        return
    sight.returned_us = 0
    sight.declined = True
    sight.perhaps_us = laws.now_us + delay_us
    if certain and delay_us:
        sight.not_before_us = sight.perhaps_us


def came_back(laws: Laws, sight: Sight, holding: Holding) -> None:
    """Its worker has lost it or given it back. If the worker certainly had it, it is the next one until another
    attempt begins.
    """
    sight.returned_us = 0 if holding.doubtful else laws.now_us
    job = laws.scheduler.find(sight.id)
    if job is not None:
        begun_again = job.lease is not None and not holding.tap.has(job.lease)
        sight.returned_attempts = job.attempts - begun_again


def lost(laws: Laws, holder: Holder, job_id: int) -> None:
    """Whoever ran it is dead, and its worker says so: a loss."""
    sight = laws.sights.get(job_id)
    holding = sight.holding if sight is not None else None
    laws.disturbed = True
    if sight is None or holding is None or holding.tap is not holder:
        return
    sight.holding = None
    sight.losses += holding.lost or not holding.doubtful
    came_back(laws, sight, holding)


def hastened(laws: Laws, job_id: int) -> None:
    """Somebody asks that it does not wait for its time."""
    sight = laws.see(job_id)
    sight.hastened = sight.waived = True


def check(laws: Laws, hall: Hall) -> None:
    """Nobody waits for a job beside one that it could have, and nobody believes that it has what it has not."""
    for tap in laws.taps.values():
        if not tap.pushed or tap.session.out or tap.session.sealed is not None:
            continue  # what it does not know may be on its way to it
        worker = tap.session.worker
        held = {lease.number for lease in worker.leases.values()} if worker is not None else set()
        for number, job_id in tap.leases.items():
            if number not in held:
                raise Violation("revoke", f"c{tap.number} was not told that it no longer has {job_id}")
        if tap.waits_for_a_job and not laws.drains.perhaps(tap):
            for name in tap.abilities:
                queue = hall.scheduler.queues.get(name)
                if name in laws.pauses.asked_us:
                    continue
                if queue is not None and _has_work(queue) and worker in queue.workers:
                    raise Violation("idle", f"c{tap.number} waits beside a ready job of {name!r}")


def _has_work(queue: Queue) -> bool:
    """It has a ready job that everybody may have who can do the queue."""
    return queue.by_requirement is None and any(lane.waiting() for lane in queue.lanes)


def answered_all(tap: Tap) -> None:
    """All is done: no request waits for its answer."""
    if tap.unanswered:
        raise Violation("one answer", f"c{tap.number} still waits for {tap.unanswered} answers")
