"""Jobs that wait for resources: beside workers without an empty slot, or many jobs with other needs."""

from __future__ import annotations

import sys

import pytest
from hall_recorder import DETACHED, SECOND_US, Hall
from resource_stories import PATIENCE_US, equipped, finish, submit

from hiringhall.core.reasons import why
from hiringhall.core.terms import Terms


def test_a_worker_without_an_empty_slot_is_not_reserved_before_one_that_is_free_sooner(hall: Hall) -> None:
    ann = equipped(hall, "ann", "cpus=8", "q", "other", slots=1)
    hall.submit("long", "other", terms=Terms(detached=True, takes_us=36_000 * SECOND_US))
    hall.turn()
    ann.hears("assigned long")
    bob = equipped(hall, "bob", "cpus=8", slots=1)
    small = submit(hall, "small", "cpus=1", terms=Terms(detached=True, takes_us=10 * SECOND_US))
    hall.turn()
    bob.hears("assigned small")
    bob.offers(1)
    large = submit(hall, "large", "cpus=8")
    hall.after(PATIENCE_US)
    assert why(hall.core, large) == (
        "it needs cpus=8; worker bob is reserved for it, and gets it as soon as that much is free"
    )
    submit(hall, "next", "cpus=1")
    finish(hall, bob, small)
    bob.hears("assigned large")


def test_a_reserved_worker_may_lack_only_a_slot(hall: Hall) -> None:
    ann = equipped(hall, "ann", "cpus=8", slots=1)
    hall.submit("plain", terms=DETACHED)
    hall.turn()
    ann.hears("assigned plain")
    large = submit(hall, "large", "cpus=8")
    hall.after(PATIENCE_US)
    assert why(hall.core, large) == (
        "it needs cpus=8; worker ann is reserved for it, and gets it as soon as it has an empty slot"
    )


# --- many different needs


def calls_of_one_end(needs: int) -> int:
    """How many functions are called when a job ends beside so many that wait, each with a need of its own."""
    hall = Hall()
    ann = equipped(hall, "ann", "mem=1000")
    jobs = [submit(hall, f"{number}", f"mem={300 + number / 1000:.3f}") for number in range(needs)]
    hall.turn()
    ann.hears("assigned 0", "assigned 1", "assigned 2")
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    hall.core.finish(ann.holds(jobs[0]), b"")
    hall.core.settle()
    sys.setprofile(None)
    ann.hears("assigned 3")
    hall.core.cancel(jobs[-1])
    return calls


@pytest.mark.plain
def test_each_different_need_is_looked_at_once_when_a_job_ends() -> None:
    few, many = calls_of_one_end(50), calls_of_one_end(400)
    assert many < 10 * few
