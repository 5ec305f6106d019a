"""Workers with resources and jobs that need them, for stories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import DETACHED, SECOND_US, Disk, Hall, Person

from hiringhall.amounts import needs_text

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.resources.capacity import Capacity
    from hiringhall.core.terms import Terms

PATIENCE_US = 5 * SECOND_US


def equipped(hall: Hall, name: str, text: str, *queues: str, slots: int = 100) -> Person:
    person = hall.worker(name, *queues)
    hall.core.introduce(person.me, name.encode())
    hall.core.resources.equip(person.me, text.encode())
    person.offers(slots)
    return person


def submit(hall: Hall, name: str, text: str, queue: str = "q", *, terms: Terms = DETACHED) -> Job:
    return hall.submit(name, queue, terms=terms, extras={"resources": text.encode()})


def capacity_of(person: Person) -> Capacity:
    capacity = person.me.capacity
    assert capacity is not None
    return capacity


def free(person: Person) -> str:
    """What is free, as text."""
    amounts = sorted(capacity_of(person).free.items())
    return needs_text(tuple(amounts)).decode()


def opened(disk: Disk) -> Hall:
    """Another hall with what is on disk."""
    hall = Hall()
    hall.core.restore(disk.load())
    return hall


def finish(hall: Hall, person: Person, job: Job) -> None:
    hall.core.finish(person.holds(job), b"")
    hall.turn()
