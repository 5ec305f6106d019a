"""What the stories of residents have in common: how they come, what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, SECOND_US, Hall, name_of

from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker

WATCHED_OVER = Terms(durable=True, detached=True, lease_us=10 * SECOND_US, losses_max=3)
"""Silence of ten seconds gives the job to another."""


def resident(hall: Hall, name: str, queue: str = "q") -> Worker:
    return hall.core.residents.get(queue.encode(), name.encode())


def take(hall: Hall, name: str, job: str, queue: str = "q") -> Lease:
    """The resident asks for work; it is the job of that name."""
    lease = hall.core.take(resident(hall, name, queue))
    assert lease is not None
    assert name_of(lease.job) == job
    return lease


def submit_all(hall: Hall, names: str, terms: Terms = BACKGROUND) -> list[Job]:
    return [hall.submit(name, terms=terms) for name in names]
